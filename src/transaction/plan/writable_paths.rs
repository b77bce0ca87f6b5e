//! Writable paths of a deployment: those that lead, through the image's own links, to `/etc`, `/var` or `/run`.
//! Everything else lies in the image and is read-only when a generation is activated.

use std::collections::VecDeque;

use crate::core::config::host_config::HostConfig;
use crate::core::values::names::ManagedPath;
use crate::core::values::refusal::{Refusal, RefusalList};
use crate::host::{HostError, Root};
use crate::transaction::TransactionError;
use crate::transaction::plan::error::PlanError;

/// Directories that are writable when a generation is activated.
const WRITABLE: [&str; 3] = ["/etc", "/var", "/run"];
/// Directories that each OSTree image holds itself, whatever other images link.
const IMAGE: [&str; 5] = ["/usr", "/bin", "/sbin", "/lib", "/lib64"];
/// Directory below `/usr` that many images link to `/var`.
const LOCAL: &str = "/usr/local";
/// Maximum number of links in a path: the kernel's own limit.
const LINKS: usize = 40;

/// Path of a config that leads to a read-only directory.
#[derive(Debug)]
pub(crate) struct UnwritablePath {
    pub(crate) refusal: Refusal,
    /// True if the path is read-only in every image.
    pub(crate) is_certain: bool,
}

/// Directory in which a path ends.
#[derive(Debug, PartialEq, Eq)]
enum PathEnd {
    Writable,
    /// Directory of the image, or the root directory itself.
    ReadOnly(String),
    /// Directory that the image lacks.
    Missing(String),
    /// Link that is not followed, since it is absolute, leaves the root or leads in a circle.
    Link(String),
}

/// Find the paths of `config` that lead to a read-only directory of the deployment at `root`.
pub(crate) fn find_unwritable(root: &Root, config: &HostConfig) -> Result<Vec<UnwritablePath>, HostError> {
    let files = config.files.iter().map(|(path, file)| (path, "files", file.index));
    let links = config.links.iter().map(|(path, link)| (path, "links", link.index));
    let leaves = files.chain(links).map(|(path, list, index)| (path, path.parent(), list, index));
    // An existing directory of the image can be listed, to set its mode.
    let directories = config
        .directories
        .iter()
        .map(|(path, directory)| (path, Some(path.clone()), "directories", directory.index));
    let mut found = Vec::new();
    for (path, directory, list, index) in leaves.chain(directories) {
        let end = match directory {
            Some(directory) => end_of(root, &directory)?,
            None => PathEnd::ReadOnly("/".to_owned()),
        };
        let Some(reason) = reason(path, &end) else { continue };
        let refusal = Refusal::new(format!("spec.config.storage.{list}[{index}].path"), reason);
        let is_certain = IMAGE.iter().any(|top| path.is_within(top)) && !path.is_within(LOCAL);
        found.push(UnwritablePath { refusal, is_certain });
    }
    Ok(found)
}

/// Refuse `config` if a path of it leads to a read-only directory of the new deployment at `root`.
pub(crate) fn ensure_writable(root: &Root, config: &HostConfig) -> Result<(), TransactionError> {
    let found = find_unwritable(root, config)?.into_iter().map(|path| path.refusal).collect();
    Ok(RefusalList::or(found, ()).map_err(PlanError::from)?)
}

fn reason(path: &ManagedPath, end: &PathEnd) -> Option<String> {
    const INSTEAD: &str = "remove the entry, or list a path below /etc or /var";
    match end {
        PathEnd::Writable => None,
        PathEnd::ReadOnly(directory) if directory == "/" => {
            Some(format!("{path} lies in the root directory, which is read-only; {INSTEAD}"))
        }
        PathEnd::ReadOnly(directory) => Some(format!(
            "{path} lies in {directory} of the OS image, which is read-only; build it into the image, or list \
             a path below /etc or /var"
        )),
        PathEnd::Missing(directory) => Some(format!(
            "{path} needs the directory {directory}, which the OS image lacks and which cannot be created, \
             since the root directory is read-only; {INSTEAD}"
        )),
        PathEnd::Link(link) => Some(format!(
            "{path} leads through the link {link} of the OS image, which is not relative or leads nowhere; \
             {INSTEAD}"
        )),
    }
}

/// Follow `directory` through the links of the image, until it enters a writable directory or ends.
fn end_of(root: &Root, directory: &ManagedPath) -> Result<PathEnd, HostError> {
    let mut names: VecDeque<String> = components(directory.as_str());
    let mut reached: Option<ManagedPath> = None;
    let mut links = 0;
    while let Some(name) = names.pop_front() {
        let here = match &reached {
            Some(above) => above.join(&name),
            None => ManagedPath::constant(&format!("/{name}")),
        };
        if WRITABLE.contains(&here.as_str()) {
            return Ok(PathEnd::Writable);
        }
        if let Some(target) = root.link_target(&here)? {
            links += 1;
            let Some(target) = here.leads_to(&target).filter(|_| links <= LINKS) else {
                return Ok(PathEnd::Link(here.to_string()));
            };
            for name in components(target.as_str()).into_iter().rev() {
                names.push_front(name);
            }
            reached = None;
        } else if root.leads_to_directory(&here) {
            reached = Some(here);
        } else {
            return Ok(match reached {
                None => PathEnd::Missing(here.to_string()),
                Some(reached) => PathEnd::ReadOnly(reached.to_string()),
            });
        }
    }
    Ok(PathEnd::ReadOnly(reached.map_or_else(|| "/".to_owned(), |reached| reached.to_string())))
}

fn components(path: &str) -> VecDeque<String> {
    path.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn path_is_writable_where_the_image_leads_to_etc_var_or_run() {
        let scratch = tempfile::tempdir().unwrap();
        for directory in ["etc", "var", "usr/lib", "data", "tmp"] {
            fs::create_dir_all(scratch.path().join(directory)).unwrap();
        }
        for (link, target) in [
            ("opt", "var/opt"),
            ("usr/local", "../var/usrlocal"),
            ("lib", "usr/lib"),
            ("media", "./run/media"),
            ("absolute", "/var/absolute"),
            ("circle", "circle"),
            ("gone", "nowhere/at/all"),
        ] {
            symlink(target, scratch.path().join(link)).unwrap();
        }
        let root = Root::open(scratch.path()).unwrap();
        let at = |path: &str| end_of(&root, &ManagedPath::constant(path)).unwrap();
        for path in ["/etc", "/etc/x", "/var/x/y", "/opt", "/opt/x", "/usr/local/bin", "/run/x", "/media/x"] {
            assert_eq!(at(path), PathEnd::Writable, "{path}");
        }
        for (path, directory) in
            [("/usr/lib/x", "/usr/lib"), ("/lib/x", "/usr/lib"), ("/data/x", "/data"), ("/tmp", "/tmp")]
        {
            assert_eq!(at(path), PathEnd::ReadOnly(directory.to_owned()), "{path}");
        }
        for (path, directory) in [("/nowhere/x", "/nowhere"), ("/gone/x", "/nowhere")] {
            assert_eq!(at(path), PathEnd::Missing(directory.to_owned()), "{path}");
        }
        for link in ["/absolute", "/circle"] {
            assert_eq!(at(&format!("{link}/x")), PathEnd::Link(link.to_owned()));
        }
    }
}
