//! Time zones, as the host knows them.

use jiff::tz::TimeZone;

/// Name of the host's own time zone.
const LOCAL: &str = "localtime";

/// Time zone that the host does not know.
#[derive(Debug, thiserror::Error)]
#[error(
    "the time zone {name} of the reboot windows cannot be read: set `reboot.time-zone` to a name such as Europe/Berlin below /usr/share/zoneinfo, to UTC, or to localtime"
)]
pub struct UnknownTimeZone {
    name: String,
    #[source]
    source: jiff::Error,
}

/// Look a time zone up by its name in the IANA database, or `localtime`.
pub fn time_zone(name: &str) -> Result<TimeZone, UnknownTimeZone> {
    let zone = match name {
        // Needs no database, which minimal systems lack.
        "UTC" => Ok(TimeZone::UTC),
        LOCAL => TimeZone::try_system(),
        name => TimeZone::get(name),
    };
    zone.map_err(|source| UnknownTimeZone { name: name.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zone_is_known_by_its_name_or_refused_with_the_setting() {
        assert_eq!(time_zone("UTC").unwrap(), TimeZone::UTC);
        let refused = time_zone("Europe/Nowhere").unwrap_err().to_string();
        assert!(refused.contains("Europe/Nowhere") && refused.contains("reboot.time-zone"), "{refused}");
    }
}
