//! Reboot windows: `[[reboot.window]]` in a fragment, and the times at which they are open.
//!
//! They are those of zincati's strategy `periodic`: a window opens at a local time of some days of the week, and stays open
//! for a number of minutes, whatever the clock of the time zone does meanwhile.

use std::collections::BTreeSet;
use std::num::NonZeroU16;

use jiff::civil::{Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, Timestamp};
use serde::Deserialize;

/// Time zone of the windows where none is set, as in zincati.
const UTC: &str = "UTC";
/// Minutes of a week, after which each window opens again.
const WEEK_MINUTES: u16 = 7 * 24 * 60;
/// Days before and after a time that have windows around it.
const AROUND: std::ops::RangeInclusive<i64> = -8..=8;

/// Days of a week, by the short names that people write.
const DAYS: [(&str, Weekday); 7] = [
    ("mon", Weekday::Monday),
    ("tue", Weekday::Tuesday),
    ("wed", Weekday::Wednesday),
    ("thu", Weekday::Thursday),
    ("fri", Weekday::Friday),
    ("sat", Weekday::Saturday),
    ("sun", Weekday::Sunday),
];

/// Window of a week.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "WindowFragment")]
pub(crate) struct RebootWindow {
    /// Days on which it opens.
    days: Vec<Weekday>,
    start: Time,
    length: SignedDuration,
}

/// Times at which the host may be disrupted for an update: at any time if there is no window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RebootWindows {
    pub(super) list: Vec<RebootWindow>,
    pub(super) time_zone: Option<String>,
}

/// State of the windows at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowState {
    /// There is no window: always open.
    Unrestricted,
    Open {
        closes: Timestamp,
    },
    Closed {
        opens: Timestamp,
    },
}

/// Time for which the windows are open without a break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenTime {
    pub opens: Timestamp,
    pub closes: Timestamp,
}

impl RebootWindows {
    /// Return true if there is no window.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Name of the time zone in which the windows open: of the IANA database, or `localtime`.
    #[must_use]
    pub fn time_zone(&self) -> &str {
        self.time_zone.as_deref().unwrap_or(UTC)
    }

    /// Return the state of the windows at `now`, in their time zone.
    #[must_use]
    pub fn at(&self, now: Timestamp, zone: &TimeZone) -> WindowState {
        match self.next_open(now, zone) {
            Some(time) if time.opens <= now => WindowState::Open { closes: time.closes },
            Some(time) => WindowState::Closed { opens: time.opens },
            None => WindowState::Unrestricted,
        }
    }

    /// Return the time for which the windows are open at `now`, or else are open next; `None` if there is no window.
    #[must_use]
    pub fn next_open(&self, now: Timestamp, zone: &TimeZone) -> Option<OpenTime> {
        let mut times = self.times_around(now, zone).into_iter().filter(|(_, closes)| *closes > now);
        let (opens, mut closes) = times.next()?;
        for (next_opens, next_closes) in times {
            if next_opens > closes {
                break;
            }
            closes = closes.max(next_closes);
        }
        Some(OpenTime { opens, closes })
    }

    /// List the times from opening to closing around `now`, in the order in which they open.
    fn times_around(&self, now: Timestamp, zone: &TimeZone) -> BTreeSet<(Timestamp, Timestamp)> {
        let today = now.to_zoned(zone.clone()).date();
        let dates = AROUND.filter_map(|days| today.checked_add(Span::new().days(days)).ok());
        let on_date = |date: jiff::civil::Date| {
            let windows = self.list.iter().filter(move |window| window.days.contains(&date.weekday()));
            windows.filter_map(move |window| {
                // In the hour that a time zone skips, the window opens after it; in one that comes twice, at the first.
                let opens = date.to_datetime(window.start).to_zoned(zone.clone()).ok()?.timestamp();
                Some((opens, opens.checked_add(window.length).ok()?))
            })
        };
        dates.flat_map(on_date).collect()
    }
}

/// The TOML of a window.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct WindowFragment {
    /// Absent for every day.
    days: Option<Vec<DayName>>,
    start_time: StartTime,
    length_minutes: NonZeroU16,
}

impl TryFrom<WindowFragment> for RebootWindow {
    type Error = String;

    fn try_from(window: WindowFragment) -> Result<Self, String> {
        let minutes = window.length_minutes.get();
        if minutes > WEEK_MINUTES {
            return Err(format!(
                "a window of {minutes} minutes is longer than a week, which has {WEEK_MINUTES}"
            ));
        }
        let days: Vec<Weekday> = match window.days {
            Some(days) => days.into_iter().map(|DayName(day)| day).collect(),
            None => DAYS.map(|(_, day)| day).to_vec(),
        };
        if days.is_empty() {
            return Err(
                "a window without a day never opens: name days, or remove `days` for every day".to_owned()
            );
        }
        Ok(Self { days, start: window.start_time.0, length: SignedDuration::from_mins(minutes.into()) })
    }
}

/// Day of the week, such as `Sat` or `Saturday`.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct DayName(Weekday);

impl TryFrom<String> for DayName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let lower = text.to_ascii_lowercase();
        let day =
            DAYS.iter().find(|(short, day)| lower == *short || lower == format!("{day:?}").to_lowercase());
        day.map(|(_, day)| Self(*day)).ok_or_else(|| {
            format!("`{text}` is no day of the week: expected Mon, Tue, Wed, Thu, Fri, Sat or Sun")
        })
    }
}

/// Local time of a day, such as `23:30`.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct StartTime(Time);

impl TryFrom<String> for StartTime {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_number = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        let parts = text.split_once(':').filter(|(hour, minute)| is_number(hour) && is_number(minute));
        let time =
            parts.and_then(|(hour, minute)| Time::new(hour.parse().ok()?, minute.parse().ok()?, 0, 0).ok());
        time.map(Self).ok_or_else(|| format!("`{text}` is no time of a day: expected HH:MM, such as 23:30"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(list: &[(&[&str], &str, u16)]) -> RebootWindows {
        let window = |(days, start, minutes): &(&[&str], &str, u16)| {
            let named: Vec<_> =
                days.iter().map(|day| DayName::try_from((*day).to_owned()).unwrap()).collect();
            let fragment = WindowFragment {
                days: (!named.is_empty()).then_some(named),
                start_time: (*start).to_owned().try_into().unwrap(),
                length_minutes: NonZeroU16::new(*minutes).unwrap(),
            };
            fragment.try_into().unwrap()
        };
        RebootWindows { list: list.iter().map(window).collect(), time_zone: None }
    }

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn no_window_is_always_open() {
        let state = windows(&[]).at(time("2026-11-28T00:00:00Z"), &TimeZone::UTC);
        assert_eq!(state, WindowState::Unrestricted);
    }

    #[test]
    fn window_is_open_from_its_start_for_its_length() {
        let weekend = windows(&[(&["Sat", "sunday"], "23:30", 60)]);
        for (now, expected) in [
            ("2026-11-28T23:29:59Z", WindowState::Closed { opens: time("2026-11-28T23:30:00Z") }),
            ("2026-11-28T23:30:00Z", WindowState::Open { closes: time("2026-11-29T00:30:00Z") }),
            // Of the day before, past midnight.
            ("2026-11-29T00:29:59Z", WindowState::Open { closes: time("2026-11-29T00:30:00Z") }),
            ("2026-11-29T00:30:00Z", WindowState::Closed { opens: time("2026-11-29T23:30:00Z") }),
            ("2026-11-30T12:00:00Z", WindowState::Closed { opens: time("2026-12-05T23:30:00Z") }),
        ] {
            assert_eq!(weekend.at(time(now), &TimeZone::UTC), expected, "{now}");
        }
    }

    #[test]
    fn windows_that_meet_are_one() {
        let nights = windows(&[(&[], "22:00", 120), (&["Sun"], "00:00", 90), (&["Sun"], "00:10", 5)]);
        let open = nights.next_open(time("2026-11-28T12:00:00Z"), &TimeZone::UTC).unwrap();
        let expected = OpenTime { opens: time("2026-11-28T22:00:00Z"), closes: time("2026-11-29T01:30:00Z") };
        assert_eq!(open, expected);
        let always = windows(&[(&["Wed"], "05:00", WEEK_MINUTES)]);
        assert!(matches!(always.at(time("2026-11-28T12:00:00Z"), &TimeZone::UTC), WindowState::Open { .. }));
    }

    #[test]
    fn window_follows_the_clock_of_its_time_zone() {
        // Central European time, with its rules in the text.
        let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let nightly = windows(&[(&[], "02:30", 30)]);
        let opens = |now| nightly.next_open(time(now), &berlin).unwrap().opens;
        assert_eq!(opens("2026-01-10T12:00:00Z"), time("2026-01-11T01:30:00Z"));
        assert_eq!(opens("2026-07-10T12:00:00Z"), time("2026-07-11T00:30:00Z"));
        // 02:30 does not exist on this day, and comes twice on the other.
        assert_eq!(opens("2026-03-28T12:00:00Z"), time("2026-03-29T01:30:00Z"));
        assert_eq!(opens("2026-10-24T12:00:00Z"), time("2026-10-25T00:30:00Z"));
    }

    #[test]
    fn impossible_windows_are_refused_with_the_reason() {
        for text in ["24:00", "7:30", "07:60", "0730", "07:3x", "+7:30"] {
            assert!(StartTime::try_from(text.to_owned()).unwrap_err().contains(text), "{text}");
        }
        assert!(DayName::try_from("Sonntag".to_owned()).unwrap_err().contains("`Sonntag`"));
        let start_time = || StartTime::try_from("00:00".to_owned()).unwrap();
        let refused = |days, minutes| {
            let length_minutes = NonZeroU16::new(minutes).unwrap();
            RebootWindow::try_from(WindowFragment { days, start_time: start_time(), length_minutes })
                .unwrap_err()
        };
        assert!(refused(None, WEEK_MINUTES + 1).contains("longer than a week"));
        assert!(refused(Some(Vec::new()), 1).contains("never opens"));
    }
}
