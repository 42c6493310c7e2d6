//! What a viewer asks for: the stream, a copy in another container, its poster, or a part of its
//! HLS.

use super::Settings;
use super::admission::EntryPoint;
use super::parameters::no_parameters;
use crate::hls::{HlsRequest, PlaylistPosition};
use crate::http::{Refusal, Target};
use crate::remux;

/// What a viewer of a session asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub enum View {
    /// The whole stream, as its source sends it.
    Whole,
    /// The whole stream, in this container.
    In(remux::Target),
    /// The newest key frame, as MP4.
    Poster,
    /// The playlist, or a file that it names.
    Part(HlsRequest),
}

impl View {
    /// Returns the view for the part of a path after the session id. `None`: there is no such view.
    pub fn of(
        file: &[u8],
        target: &Target,
        settings: &Settings,
    ) -> Option<(EntryPoint, Result<View, Refusal>)> {
        let remuxed = match file {
            b"poster.mp4" => Some(View::Poster),
            _ => remux::Target::named(file).map(View::In),
        };
        if let Some(view) = remuxed.filter(|_| settings.remuxes) {
            return Some((EntryPoint::Remuxed, no_parameters(target).map(|()| view)));
        }
        let wanted = HlsRequest::of(file, target).filter(|_| settings.serves_hls)?;
        Some((EntryPoint::Hls, wanted.map(View::Part)))
    }

    /// Returns the entry point of the view.
    pub fn entry_point(&self) -> EntryPoint {
        match self {
            View::Whole => EntryPoint::Viewer,
            View::In(_) | View::Poster => EntryPoint::Remuxed,
            View::Part(_) => EntryPoint::Hls,
        }
    }

    /// Returns whether the target is the view's own URL. Caches keep nothing that has no end.
    pub fn is_addressed_by(&self, target: &Target) -> bool {
        match self {
            View::Whole | View::In(_) | View::Poster => true,
            View::Part(wanted) => wanted.is_addressed_by(target),
        }
    }

    /// Returns the name of the view in list-viewers.
    pub fn name(&self) -> &'static str {
        match self {
            View::Whole | View::In(_) => "http",
            View::Poster => "poster",
            View::Part(_) => "hls",
        }
    }

    /// Returns how far the playlist must have come for this view.
    pub fn playlist_position(&self) -> PlaylistPosition {
        match self {
            View::Whole | View::In(_) | View::Poster => PlaylistPosition::STREAM,
            View::Part(wanted) => wanted.playlist_position(),
        }
    }

    /// Returns whether a client may wait for it while the session does not run. The files of a
    /// playlist have no names before.
    pub fn can_wait(&self) -> bool {
        match self {
            View::Whole | View::In(_) | View::Poster => true,
            View::Part(wanted) => wanted.is_list(),
        }
    }
}

#[cfg(test)]
#[cfg(feature = "default")]
mod tests {
    use super::*;

    /// A client that may have the file waits for it.
    #[test]
    fn a_view_is_waited_for_where_it_can_come() {
        let named = HlsRequest::Named("x".repeat(100).into());
        let list = HlsRequest::List(None);
        for (view, entry_point, can_wait) in [
            (View::Whole, EntryPoint::Viewer, true),
            (View::In(remux::Target::MpegTs), EntryPoint::Remuxed, true),
            (View::Poster, EntryPoint::Remuxed, true),
            (View::Part(list), EntryPoint::Hls, true),
            (View::Part(named), EntryPoint::Hls, false),
        ] {
            assert_eq!(view.entry_point(), entry_point, "{view:?}");
            assert_eq!(view.can_wait(), can_wait, "{view:?}");
        }
    }
}
