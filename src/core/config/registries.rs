//! Drain decision for `/etc/containers/registries.conf`, by MCD's rule: a change is safe without a drain if
//! every image that the node may have pulled still resolves to the same content.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Value of `pull-from-mirror`: the content of an image that is named by its digest is the same everywhere.
const DIGEST_ONLY: &str = "digest-only";

#[derive(Debug, Default, Deserialize)]
struct Registries {
    #[serde(default, rename = "unqualified-search-registries")]
    search: Vec<String>,
    #[serde(default)]
    registry: Vec<Registry>,
}

#[derive(Debug, Deserialize)]
struct Registry {
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    location: String,
    #[serde(default)]
    blocked: bool,
    #[serde(default)]
    insecure: bool,
    #[serde(default, rename = "mirror-by-digest-only")]
    mirror_by_digest_only: bool,
    #[serde(default)]
    mirror: Vec<Mirror>,
}

#[derive(Debug, Deserialize)]
struct Mirror {
    #[serde(default)]
    location: String,
    #[serde(default)]
    insecure: bool,
    #[serde(default, rename = "pull-from-mirror")]
    pulled_for: String,
}

impl Registry {
    fn is_digest_only(&self, mirror: &Mirror) -> bool {
        self.mirror_by_digest_only || mirror.pulled_for == DIGEST_ONLY
    }

    /// The images that the entry is about: those below its prefix, or else below its location. Entries of wildcards
    /// (`*.example.com`) have a prefix only.
    fn scope(&self) -> &str {
        if self.prefix.is_empty() { &self.location } else { &self.prefix }
    }

    /// True if the entry can be added without a drain: each of its mirrors serves images by digest only. The registry's
    /// own setting counts only where there is no mirror, as in MCD.
    fn is_safe_to_add(&self) -> bool {
        match &self.mirror[..] {
            [] => self.mirror_by_digest_only,
            mirrors => mirrors.iter().all(|mirror| mirror.pulled_for == DIGEST_ONLY),
        }
    }
}

/// True if the change from `current` to `desired` needs a drain. An absent file counts as empty; a file that
/// does not parse needs a drain.
#[must_use]
pub fn needs_drain(current: Option<&[u8]>, desired: Option<&[u8]>) -> bool {
    if current == desired {
        return false;
    }
    let (Some(current), Some(desired)) = (parse(current), parse(desired)) else {
        return true;
    };
    !is_safe(&current, &desired)
}

fn parse(text: Option<&[u8]>) -> Option<Registries> {
    let text = std::str::from_utf8(text.unwrap_or_default()).ok()?;
    toml::from_str(text).ok()
}

fn is_safe(current: &Registries, desired: &Registries) -> bool {
    let (before, after) = (by_scope(current), by_scope(desired));
    let kept =
        before.iter().all(|(scope, old)| after.get(scope).is_some_and(|new| is_safe_registry(old, new)));
    let mut added = after.iter().filter(|(scope, _)| !before.contains_key(*scope));
    desired.search.starts_with(&current.search)
        && kept
        && added.all(|(_, registry)| registry.is_safe_to_add())
}

/// Of entries with the same scope, the last one counts.
fn by_scope(registries: &Registries) -> BTreeMap<&str, &Registry> {
    registries.registry.iter().map(|registry| (registry.scope(), registry)).collect()
}

fn is_safe_registry(old: &Registry, new: &Registry) -> bool {
    let properties = |of: &'_ Registry| (of.prefix.clone(), of.location.clone(), of.blocked, of.insecure);
    let same = properties(old) == properties(new);
    let kept = old.mirror.iter().all(|before| {
        let after = new.mirror.iter().find(|after| after.location == before.location);
        after.is_some_and(|after| {
            let stricter = new.is_digest_only(after) || !old.is_digest_only(before);
            let unchanged = before.pulled_for == after.pulled_for
                && old.mirror_by_digest_only == new.mirror_by_digest_only;
            before.insecure == after.insecure && stricter && (unchanged || new.is_digest_only(after))
        })
    });
    let added =
        new.mirror.iter().filter(|after| !old.mirror.iter().any(|before| before.location == after.location));
    same && kept && added.into_iter().all(|mirror| new.is_digest_only(mirror))
}

#[cfg(test)]
mod tests {
    use super::needs_drain;

    fn registry(location: &str, rest: &str, mirrors: &[(&str, &str)]) -> String {
        let mirrors: Vec<String> = mirrors
            .iter()
            .map(|(at, rest)| format!("  [[registry.mirror]]\n  location = \"{at}\"\n  {rest}\n"))
            .collect();
        format!("[[registry]]\nprefix = \"\"\nlocation = \"{location}\"\n{rest}\n{}", mirrors.concat())
    }

    #[test]
    fn drain_is_needed_as_in_mcd() {
        const DIGEST: &str = "mirror-by-digest-only = true";
        const PULL: &str = "pull-from-mirror = \"digest-only\"";
        let base = registry("a", "", &[("m", "")]);
        let digest = registry("b", DIGEST, &[("n", "")]);
        let with = |more: &str| format!("{base}{more}");
        let search = |list: &str| format!("unqualified-search-registries = [{list}]\n{base}");
        let rows = [
            (base.clone(), base.clone(), false, "unchanged"),
            (base.clone(), with(&digest), true, "registry added whose mirror serves tags by its own word"),
            (base.clone(), with(&registry("b", DIGEST, &[])), false, "digest-only registry added"),
            (base.clone(), with(&registry("b", "", &[])), true, "registry without mirrors added"),
            (base.clone(), with(&registry("b", "", &[("n", PULL)])), false, "digest-only by its mirrors"),
            (base.clone(), with(&registry("b", "", &[("n", "")])), true, "plain registry added"),
            (with(&digest), base.clone(), true, "registry removed"),
            (base.clone(), registry("a", "", &[("m", ""), ("n", PULL)]), false, "digest-only mirror added"),
            (base.clone(), registry("a", "", &[("m", ""), ("n", "")]), true, "plain mirror added"),
            (base.clone(), registry("a", "", &[]), true, "mirror removed"),
            (search("\"x\", \"y\""), search("\"x\""), true, "search list shortened"),
            (search("\"x\""), search("\"x\", \"y\""), false, "search list extended"),
            (base.clone(), base.replace("prefix = \"\"", "prefix = \"p\""), true, "prefix changed"),
            (base.clone(), registry("a", "blocked = true", &[("m", "")]), true, "blocked changed"),
            (
                registry("a", DIGEST, &[("m", "")]),
                registry("a", DIGEST, &[("m", ""), ("n", "")]),
                false,
                "mirror under digest-only",
            ),
            (base.clone(), registry("a", "", &[("m", PULL)]), false, "mirror towards digest-only"),
            (registry("a", "", &[("m", PULL)]), base.clone(), true, "mirror away from digest-only"),
            (base.clone(), "not = [toml".to_owned(), true, "not valid TOML"),
        ];
        for (current, desired, drain, what) in rows {
            assert_eq!(needs_drain(Some(current.as_bytes()), Some(desired.as_bytes())), drain, "{what}");
        }
        assert!(!needs_drain(None, None));
        assert!(needs_drain(Some(base.as_bytes()), None));
    }

    #[test]
    fn wildcards_are_told_apart_by_their_prefixes() {
        let wildcard = |scope: &str, rest: &str| format!("[[registry]]\nprefix = \"*.{scope}\"\n{rest}\n");
        let (lab, blocked) = (wildcard("lab", ""), wildcard("x", "blocked = true"));
        let both = format!("{blocked}{lab}");
        for (current, desired, what) in [
            (both.clone(), lab.clone(), "removed"),
            (both.clone(), format!("{}{lab}", wildcard("x", "")), "unblocked"),
            (lab.clone(), both.clone(), "added"),
            (lab.clone(), lab.replace("prefix", "location = \"lab\"\nprefix"), "location changed"),
        ] {
            assert!(needs_drain(Some(current.as_bytes()), Some(desired.as_bytes())), "{what}");
        }
        assert!(!needs_drain(Some(both.as_bytes()), Some(format!("{lab}{blocked}").as_bytes())), "order");
    }
}
