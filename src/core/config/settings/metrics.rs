//! Settings of the metrics server: `[metrics]` in a fragment.

use std::net::SocketAddr;
use std::str::FromStr;

use serde::Deserialize;

/// The choice whether and where the daemon serves metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum MetricsAddress {
    Off,
    At(SocketAddr),
}

impl MetricsAddress {
    /// The address to listen at; `None` for no server.
    #[must_use]
    pub fn listener(self) -> Option<SocketAddr> {
        match self {
            Self::Off => None,
            Self::At(address) => Some(address),
        }
    }
}

impl FromStr for MetricsAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let address = text.parse().map(Self::At);
        address.map_err(|_| "expected `off`, or an address and a port such as `127.0.0.1:8797`".to_owned())
    }
}

impl TryFrom<String> for MetricsAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// The daemon's metrics server; an absent setting has its default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricsSettings {
    pub address: Option<MetricsAddress>,
}

impl MetricsSettings {
    pub(crate) fn overlay(self, settings: &mut Self) {
        settings.address = self.address.or(settings.address);
    }
}
