//! Nearest known name to one that is unknown: most are misspelt.

/// Edits that a misspelt name may have; a short one has at most half as many as characters.
const EDITS: usize = 3;

/// Find the known name with the least edits, capitals apart; `None` if even that one has too many.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |known: &str| strsim::osa_distance(&known.to_lowercase(), &name.to_lowercase());
    let nearest = known.into_iter().map(|known| (distance(known), known)).min();
    let accepted = EDITS.min(name.chars().count() / 2);
    nearest.filter(|(edits, _)| *edits <= accepted).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn name_with_few_edits_is_found() {
        let known = ["steady", "timeout", "rollback"];
        for (name, expected) in [
            ("steadi", Some("steady")),
            ("time-out", Some("timeout")),
            ("RollBack", Some("rollback")),
            ("interval", None),
            ("what", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, known), expected, "{name}");
        }
    }
}
