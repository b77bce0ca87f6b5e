//! The pinned image sets of a node's pools, and the names of their images.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::core::values::refusal::{Refusal, RefusalList};

/// Longest name of an image (limit of the resource, in bytes).
const LONGEST_NAME: usize = 447;
/// Pulls at once (MCO's value).
const PULLS_AT_ONCE: usize = 5;
/// Separates the digest in the name of an image.
const DIGEST: &str = "@sha256:";

/// Pinned image sets of a node's pools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedImageSets {
    /// In the order of their names, each once.
    pub sets: Vec<PinnedImageSet>,
    /// True for a node of the control plane, whose disk etcd needs: it pulls one image at a time.
    pub is_control_plane: bool,
}

/// One `PinnedImageSet` (CRD `pinnedimagesets.machineconfiguration.openshift.io`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedImageSet {
    pub name: String,
    /// `metadata.generation`: grows with each change of `spec`.
    pub generation: i64,
    /// Names with a digest, as the set lists them.
    pub images: Vec<String>,
}

impl PinnedImageSets {
    /// Return the images of all sets, each once. Fails with all names that are no names of images with a digest.
    pub fn images(&self) -> Result<BTreeSet<String>, RefusalList> {
        let refused = self.sets.iter().flat_map(|set| {
            let wrong = set.images.iter().enumerate().filter(|(_, name)| !is_pinnable(name));
            wrong.map(|(at, name)| {
                let field = format!("PinnedImageSet {}: spec.pinnedImages[{at}].name", set.name);
                let name: String = name.chars().take(LONGEST_NAME).collect();
                Refusal::new(field, format!("{name:?} is no image with a digest (`HOST/NAME@sha256:…`)"))
            })
        });
        let images = self.sets.iter().flat_map(|set| set.images.iter().cloned()).collect();
        RefusalList::or(refused.collect(), images)
    }

    /// Number of images that are pulled at the same time.
    #[must_use]
    pub fn pulls_at_once(&self) -> usize {
        if self.is_control_plane { 1 } else { PULLS_AT_ONCE }
    }
}

/// Return true for a name `HOST[:PORT]/PATH@sha256:DIGEST` of characters that names of images have (rule of the
/// resource). Such a name stands in a configuration file as it is.
fn is_pinnable(name: &str) -> bool {
    let Some((repository, digest)) = name.split_once(DIGEST) else { return false };
    let Some((host, path)) = repository.split_once('/') else { return false };
    let is_hexadecimal = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    let is_of_path = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:".contains(&byte);
    name.len() <= LONGEST_NAME
        && digest.len() == 64
        && digest.bytes().all(is_hexadecimal)
        && !host.is_empty()
        && host.bytes().all(is_of_host)
        && !path.is_empty()
        && path.bytes().all(is_of_path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, images: &[String]) -> PinnedImageSet {
        PinnedImageSet { name: name.to_owned(), generation: 1, images: images.to_vec() }
    }

    #[test]
    fn images_of_all_sets_are_sorted_and_each_is_there_once() {
        let [one, two] = ["b.example:5000/x", "a.example/y/z"].map(|name| format!("{name}{DIGEST}{:064}", 7));
        let sets = vec![set("first", std::slice::from_ref(&one)), set("second", &[two.clone(), one.clone()])];
        let sets = PinnedImageSets { sets, is_control_plane: false };
        assert_eq!(sets.images().unwrap().into_iter().collect::<Vec<_>>(), [two, one]);
    }

    #[test]
    fn names_that_are_no_pinned_images_are_refused_all_at_once() {
        let digest = format!("{DIGEST}{:064}", 7);
        let wrong = [
            "registry.example/name:latest".to_owned(),
            format!("registry.example/name{DIGEST}123"),
            format!("registry.example/na\"me{digest}"),
            format!("registry.example/na\nme{digest}"),
            format!("name{digest}"),
            format!("/name{digest}"),
            format!("registry.example/{digest}"),
            format!("registry.example/{}{digest}", "x".repeat(LONGEST_NAME)),
            String::new(),
        ];
        let sets = PinnedImageSets { sets: vec![set("all", &wrong)], is_control_plane: false };
        let refused = sets.images().unwrap_err().to_string();
        for at in 0..wrong.len() {
            let field = format!("PinnedImageSet all: spec.pinnedImages[{at}].name: ");
            assert!(refused.contains(&field), "{field} is not in {refused}");
        }
    }
}
