//! Order of versions such as `4.17.10`, `4.18.0-rc.1` and `43.20260102.3.0`.

use std::cmp::Ordering;

/// Compare two versions by their numbers. A version with a suffix (`-rc.1`) precedes the one without.
pub(super) fn compare_versions(one: &str, other: &str) -> Ordering {
    let split =
        |version| str::split_once(version, '-').map_or((version, None), |(core, rest)| (core, Some(rest)));
    let ((one, one_suffix), (other, other_suffix)) = (split(one), split(other));
    compare_parts(one, other).then_with(|| match (one_suffix, other_suffix) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(one), Some(other)) => compare_parts(one, other),
    })
}

fn compare_parts(one: &str, other: &str) -> Ordering {
    let parts = |text| str::split(text, ['.', '-']).map(Part::of).collect::<Vec<_>>();
    parts(one).cmp(&parts(other))
}

/// Part of a version: numbers precede names, as in semver.org.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Part<'a> {
    Number(u64),
    Name(&'a str),
}

impl<'a> Part<'a> {
    fn of(text: &'a str) -> Self {
        text.parse().map_or(Self::Name(text), Self::Number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        let ordered = [
            "4.9.2",
            "4.17.10-rc.2",
            "4.17.10-rc.10",
            "4.17.10",
            "4.18.0-ec.0",
            "4.18.0-rc.1",
            "4.18.0",
            "42.20250701.3.0",
            "43.20260101.3.0",
            "43.20260101.3.1",
        ];
        for (index, one) in ordered.iter().enumerate() {
            for (other_index, other) in ordered.iter().enumerate() {
                assert_eq!(compare_versions(one, other), index.cmp(&other_index), "{one} {other}");
            }
        }
    }
}
