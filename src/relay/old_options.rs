//! Options of the predecessor that its successor has to know.

use serde::{Deserialize, Serialize};

use super::Settings;

/// Options of the predecessor that the rest of the hand-over does not show.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct OldOptions {
    /// `--proxy-protocol` and `--forwarded-from`. Each proxy of a chain has named the client.
    proxies: Vec<String>,
    /// `--origin`.
    origins: Vec<String>,
    /// `--origin-tokens`
    pub asks_origin: bool,
}

impl OldOptions {
    /// Returns the options that these settings have.
    pub fn of(settings: &Settings) -> OldOptions {
        let proxies = settings.proxies.iter().chain(&settings.forwarders);
        OldOptions {
            proxies: proxies.map(ToString::to_string).collect(),
            origins: settings.origins.iter().map(ToString::to_string).collect(),
            asks_origin: settings.asks_origin,
        }
    }

    /// Returns whether the predecessor trusted a proxy that these settings do not trust.
    pub fn had_other_proxies(&self, settings: &Settings) -> bool {
        let now = OldOptions::of(settings).proxies;
        !self.proxies.iter().all(|proxy| now.contains(proxy))
    }

    /// Returns whether the predecessor had other origins.
    pub fn had_other_origins(&self, settings: &Settings) -> bool {
        self.origins != OldOptions::of(settings).origins
    }
}
