//! File tree in a temporary directory on which both systemctl and `operate` work.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use flameholder::core::enablement::{
    EnablementError, EnablementLinks, EnablementOutcome, PresetRules, SEARCH_PATH, SystemdVersion, UnitFile,
    UnitFiles, UnitName, UnitOperation, operate,
};
use tempfile::TempDir;

const CONFIG: &str = "etc/systemd/system";
const PRESETS: &str = "etc/systemd/system-preset/10-test.preset";

/// The side that refuses a call that the other side carries out.
#[derive(Debug, PartialEq, Eq)]
enum Refuser {
    Systemctl,
    Operate,
}

const FORGOTTEN: &str = "systemd 252 exits 0 when dependencies that cannot be linked come after links that can \
     be made, and reports them on stderr; 257 fails, as `operate` does";

/// Every known difference: the refusing side, the message of systemctl, and the reason.
const DEVIATIONS: [(Refuser, &str, &str); 4] = [
    (
        Refuser::Systemctl,
        "Failed to look up unit file state",
        "compiled with SysV support, systemctl looks for init scripts of that name first, and fails when \
         their lookup finds a broken vendor alias; enabling by systemctl itself has no such rule",
    ),
    (Refuser::Operate, "is not a valid unit name", FORGOTTEN),
    (Refuser::Operate, "is a non-template unit", FORGOTTEN),
    (Refuser::Operate, "is masked.", FORGOTTEN),
];

/// Unit files by short path, the preset file and the systemctl calls.
#[derive(Debug, Clone)]
pub(super) struct Universe {
    /// `e/`, `r/`, `v/` stand for the unit directories in /etc, /run and /usr/lib; contents `-> TARGET` make
    /// a link.
    pub files: Vec<(String, String)>,
    /// Contents of the only preset file.
    pub presets: String,
    /// For example `enable a.service`.
    pub calls: Vec<String>,
}

impl Universe {
    /// Run both sides, one call after the other, and return the number of calls that changed links.
    ///
    /// After a refusal both sides go on from the links that systemctl has made by then.
    ///
    /// # Errors
    ///
    /// A description of the first difference.
    pub(super) fn compare(&self, version: SystemdVersion) -> Result<usize, String> {
        let tree = Tree::new(self);
        let (mut start, mut since_start) = (tree.links(), Vec::new());
        let mut changes = 0;
        for call in &self.calls {
            let operation = operation(call);
            let before = tree.links();
            let expected = tree.operate(&before, version, std::slice::from_ref(&operation));
            let actual = tree.systemctl(call);
            let after = tree.links();
            match (expected, actual) {
                (Ok(outcome), Ok(_)) => {
                    same_links(call, &outcome.links, &after)?;
                    changes += usize::from(after != before);
                    since_start.push(operation);
                    continue;
                }
                (Err(_), Err(_)) => {}
                (Ok(_), Err(stderr)) if is_known(&Refuser::Systemctl, &stderr) => {}
                (Err(_), Ok(stderr)) if is_known(&Refuser::Operate, &stderr) => {}
                (expected, actual) => {
                    return Err(format!("{call}: expected {expected:?}, got {actual:?}, {after:?}"));
                }
            }
            (start, since_start) = (after, Vec::new());
        }
        let at_once =
            tree.operate(&start, version, &since_start).map_err(|error| format!("all at once: {error}"))?;
        same_links("all at once", &at_once.links, &tree.links())?;
        Ok(changes)
    }

    /// Outcome of all calls with `operate` alone.
    pub(super) fn operate(&self, version: SystemdVersion) -> Result<EnablementOutcome, EnablementError> {
        let tree = Tree::new(self);
        let operations: Vec<_> = self.calls.iter().map(|call| operation(call)).collect();
        tree.operate(&tree.links(), version, &operations)
    }
}

fn is_known(refuser: &Refuser, stderr: &str) -> bool {
    DEVIATIONS.iter().any(|(who, message, _)| who == refuser && stderr.contains(message))
}

fn same_links(call: &str, expected: &EnablementLinks, actual: &EnablementLinks) -> Result<(), String> {
    if expected == actual {
        Ok(())
    } else {
        Err(format!("{call}: expected {expected:?}, systemctl made {actual:?}"))
    }
}

fn operation(call: &str) -> UnitOperation {
    let (verb, name) = call.split_once(' ').expect("a call has a verb and a name");
    let name = UnitName::parse(name).expect("the unit name is valid");
    match verb {
        "enable" => UnitOperation::Enable(name),
        "disable" => UnitOperation::Disable(name),
        "preset" => UnitOperation::Preset(name),
        _ => unreachable!("no such verb: {verb}"),
    }
}

/// Version of the installed systemctl.
pub(super) fn installed_version() -> SystemdVersion {
    testbed::preconditions::require_installed(&["systemctl"]);
    let output = Command::new("systemctl").arg("--version").output().expect("systemctl starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let number = text.split_whitespace().nth(1).and_then(|number| number.parse().ok());
    SystemdVersion(number.expect("systemctl prints its version"))
}

struct Tree {
    directory: TempDir,
}

impl Tree {
    fn new(universe: &Universe) -> Self {
        let tree = Self { directory: TempDir::new().expect("temporary directory") };
        tree.write(CONFIG, None);
        tree.write(PRESETS, Some(&universe.presets));
        for (path, contents) in &universe.files {
            tree.write(&long_path(path), Some(contents));
        }
        tree
    }

    /// Write a file or a link unless the path exists; without contents, make a directory.
    fn write(&self, path: &str, contents: Option<&str>) {
        let path = self.path(path);
        let Some(contents) = contents else {
            return fs::create_dir_all(path).expect("directory");
        };
        if path.symlink_metadata().is_ok() {
            return;
        }
        fs::create_dir_all(path.parent().expect("inside the tree")).expect("parent directory");
        match contents.strip_prefix("-> ") {
            Some(target) => symlink(target, path).expect("symlink"),
            None => fs::write(path, contents).expect("file"),
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path.trim_start_matches('/'))
    }

    /// Output of systemctl; an error if it exits with a status other than 0.
    fn systemctl(&self, call: &str) -> Result<String, String> {
        let output = Command::new("systemctl")
            .arg("--root")
            .arg(self.directory.path())
            .args(call.split(' '))
            .env("LC_ALL", "C.UTF-8")
            .output()
            .expect("systemctl starts");
        assert!(output.status.code().is_some(), "systemctl {call}: {}", output.status);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(stderr) } else { Err(stderr) }
    }

    /// Call `operate`, read the unit files that it asks for, and call it again until it has all.
    fn operate(
        &self,
        links: &EnablementLinks,
        version: SystemdVersion,
        operations: &[UnitOperation],
    ) -> Result<EnablementOutcome, EnablementError> {
        let presets = fs::read_to_string(self.path(PRESETS)).expect("preset file");
        let (presets, _) = PresetRules::parse([(PRESETS, presets.as_str())], version);
        let mut units = UnitFiles::default();
        loop {
            match operate(links, &units, &presets, version, operations) {
                Err(EnablementError::NotRead(unread)) => {
                    for name in unread.units {
                        let files = SEARCH_PATH.iter().map(|directory| format!("{directory}/{name}"));
                        let files: Vec<_> =
                            files.filter_map(|path| Some((path.clone(), self.read(&path)?))).collect();
                        let drop_ins = self.drop_ins(&name);
                        units.add_unit(name, files, drop_ins);
                    }
                    for path in unread.files {
                        let file = self.read(&path);
                        units.add_file(path, file);
                    }
                }
                outcome => return outcome,
            }
        }
    }

    fn read(&self, path: &str) -> Option<UnitFile> {
        let path = self.path(path);
        let metadata = path.symlink_metadata().ok()?;
        Some(if metadata.is_symlink() {
            UnitFile::Symlink(read_target(&path))
        } else {
            UnitFile::Regular(fs::read_to_string(path).expect("unit file"))
        })
    }

    fn drop_ins(&self, name: &UnitName) -> Vec<String> {
        let names = [Some(name.clone()), name.template()].into_iter().flatten();
        let mut found = BTreeMap::new();
        for directory in names.flat_map(|name| SEARCH_PATH.map(|directory| format!("{directory}/{name}.d"))) {
            let Ok(entries) = fs::read_dir(self.path(&directory)) else {
                continue;
            };
            for entry in entries.map(|entry| entry.expect("directory entry")) {
                let path = entry.path();
                if path.extension().is_some_and(|extension| extension == "conf") {
                    found
                        .entry(entry.file_name())
                        .or_insert_with(|| fs::read_to_string(path).expect("drop-in"));
                }
            }
        }
        found.into_values().collect()
    }

    /// Every link below `/etc/systemd/system`.
    fn links(&self) -> EnablementLinks {
        let root = self.path(CONFIG);
        let mut links = EnablementLinks::new();
        let mut directories = vec![root.clone()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).expect("directory") {
                let entry = entry.expect("directory entry");
                let (path, kind) = (entry.path(), entry.file_type().expect("file type"));
                if kind.is_dir() {
                    directories.push(path);
                } else if kind.is_symlink() {
                    let relative = path.strip_prefix(&root).expect("below the root");
                    links.insert(relative.to_str().expect("UTF-8").to_owned(), read_target(&path));
                }
            }
        }
        links
    }
}

fn read_target(path: &Path) -> String {
    fs::read_link(path).expect("link").to_str().expect("UTF-8").to_owned()
}

fn long_path(path: &str) -> String {
    match path.split_once('/') {
        Some(("e", tail)) => format!("{CONFIG}/{tail}"),
        Some(("r", tail)) => format!("run/systemd/system/{tail}"),
        Some(("v", tail)) => format!("usr/lib/systemd/system/{tail}"),
        _ => path.to_owned(),
    }
}
