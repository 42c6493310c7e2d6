//! Fields of internet radio in the head of a request: what a source says about its station, and
//! whether a listener wants titles within the media.

use crate::clean_text::CleanText;

/// A field of a source's head.
pub type StationField = CleanText<256>;

/// The fields of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IcyFields {
    /// Whether `Icy-MetaData` is 1.
    wants_metadata: bool,
    /// What the source says about its station. Few requests have it.
    station: Option<Box<Station>>,
}

/// Whether a response may carry titles within its media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub enum IcyMetadata {
    /// The server sends none.
    Off,
    /// The listener did not ask for them.
    Unwanted,
    /// The listener asks for them.
    Wanted,
}

/// What a source says about its station.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Station {
    name: Option<StationField>,
    /// `Ice-Genre`.
    pub genre: Option<StationField>,
    /// `Ice-Description`.
    pub description: Option<StationField>,
    /// `Ice-Url`.
    pub url: Option<StationField>,
    bitrate: Option<StationField>,
    audio_info: Option<StationField>,
}

impl IcyFields {
    /// Returns whether the response may carry titles. `is_on`: whether the server sends them.
    pub fn metadata(&self, is_on: bool) -> IcyMetadata {
        match (is_on, self.wants_metadata) {
            (false, _) => IcyMetadata::Off,
            (true, false) => IcyMetadata::Unwanted,
            (true, true) => IcyMetadata::Wanted,
        }
    }

    /// Returns what the source says about its station. `is_on`: whether that counts.
    pub fn station(&self, is_on: bool) -> Station {
        let station = self.station.as_deref().filter(|_| is_on);
        station.cloned().unwrap_or_default()
    }

    fn given(&mut self) -> &mut Station {
        self.station.get_or_insert_default()
    }

    /// Takes a field, whose name is in lower case. Returns whether it is one of these.
    pub fn take(&mut self, name: &str, value: &[u8]) -> bool {
        let place = match name {
            "icy-metadata" => {
                self.wants_metadata = value.trim_ascii() == b"1";
                return true;
            }
            "ice-name" | "icy-name" => &mut self.given().name,
            "ice-genre" | "icy-genre" => &mut self.given().genre,
            "ice-description" => &mut self.given().description,
            "ice-url" | "icy-url" => &mut self.given().url,
            "ice-bitrate" | "icy-br" => &mut self.given().bitrate,
            "ice-audio-info" => &mut self.given().audio_info,
            _ => return false,
        };
        *place = StationField::decode(value, None);
        true
    }
}

impl Station {
    /// Returns the name of the station.
    pub fn name(&self) -> Option<&StationField> {
        self.name.as_ref()
    }

    /// Returns the bit rate in kbit/s that the source declares.
    pub fn bitrate(&self) -> Option<u32> {
        let info = self.audio_info.as_ref().map_or("", StationField::as_str);
        let of_info = info.split(';').filter_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            matches!(name.trim(), "bitrate" | "ice-bitrate").then_some(value)
        });
        let declared = self.bitrate.iter().map(StationField::as_str);
        let mut all = declared.chain(of_info);
        all.find_map(|value| value.trim().parse().ok())
    }

    /// Returns the fields that a listener gets, besides `icy-br`.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            ("icy-name", &self.name),
            ("icy-genre", &self.genre),
            ("icy-url", &self.url),
            ("icy-description", &self.description),
        ];
        let known = all.into_iter();
        known.filter_map(|(name, field)| Some((name, field.as_ref()?.as_str())))
    }

    /// Returns the bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        let station = [&self.name, &self.genre, &self.description, &self.url];
        let all = station.into_iter().chain([&self.bitrate, &self.audio_info]);
        all.flatten().map(StationField::held_bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(lines: &[(&str, &str)]) -> IcyFields {
        let mut fields = IcyFields::default();
        for (name, value) in lines {
            assert!(fields.take(name, value.as_bytes()), "{name}");
        }
        fields
    }

    /// A source may use the names of Icecast or of SHOUTcast.
    #[test]
    fn a_station_is_described_by_either_names() {
        for prefix in ["ice", "icy"] {
            let name = format!("{prefix}-name");
            let genre = format!("{prefix}-genre");
            let url = format!("{prefix}-url");
            let lines = [(&*name, "One"), (&*genre, "Jazz"), (&*url, "http://a")];
            let station = fields(&lines).station(true);
            assert_eq!(station.name().map(CleanText::as_str), Some("One"));
            let all: Vec<_> = station.fields().collect();
            let expected = [
                ("icy-name", "One"),
                ("icy-genre", "Jazz"),
                ("icy-url", "http://a"),
            ];
            assert_eq!(all, expected);
            assert_eq!(station.held_bytes(), 3 + 4 + 8);
        }
        let mut others = IcyFields::default();
        assert!(!others.take("ice-public", b"1") && others == IcyFields::default());
        let long = fields(&[("ice-name", &"x".repeat(1000))]).station(true);
        assert_eq!(long.held_bytes(), 256);
    }

    #[test]
    fn a_bit_rate_is_a_number() {
        let of = |lines: &[(&str, &str)]| fields(lines).station(true).bitrate();
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("ice-bitrate", " 128 ")]), Some(128));
        assert_eq!(of(&[("icy-br", "Quality 3")]), None);
        let info = "ice-samplerate=44100;ice-bitrate=96; channels=2";
        assert_eq!(of(&[("ice-audio-info", info)]), Some(96));
        assert_eq!(of(&[("ice-audio-info", "bitrate=64")]), Some(64));
        let both = [("icy-br", "x"), ("ice-audio-info", "bitrate=64")];
        assert_eq!(of(&both), Some(64));
        assert_eq!(of(&[("ice-bitrate", "99999999999")]), None);
    }

    /// Only the value 1 asks for titles.
    #[test]
    fn a_listener_asks_for_titles_with_1() {
        for (value, wants) in [
            ("1", true),
            (" 1", true),
            ("0", false),
            ("", false),
            ("yes", false),
            ("11", false),
        ] {
            let fields = fields(&[("icy-metadata", value)]);
            assert_eq!(fields.wants_metadata, wants, "{value:?}");
        }
    }
}
