//! `cargo xtask ignition`: an Ignition config that installs Flameholder on OS images without it.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha512};

use crate::folder;
use crate::project_tree::ProjectTree;

/// The version of the config; Ignition 2.15 and later read it.
const VERSION: &str = "3.4.0";
/// Executables and their destinations: `/usr` belongs to the OS image.
const EXECUTABLES: [(&str, &str); 2] = [
    ("flameholder", "/usr/local/bin/flameholder"),
    ("flameholder-ostree", "/usr/local/libexec/flameholder/flameholder-ostree"),
];
/// Directories that Ignition creates for them.
const DIRECTORIES: [&str; 2] = ["/usr/local/libexec", "/usr/local/libexec/flameholder"];

/// Print the config. The machine downloads the executables of the release build from `url`.
pub fn print(workspace: &ProjectTree, url: &str) -> Result<()> {
    workspace.build_release()?;
    let digests = EXECUTABLES.map(|(name, _)| digest(&workspace.executable(name)));
    let [agent, worker] = digests;
    let config = render(&workspace.root().join("systemd"), url, &[agent?, worker?])?;
    println!("{}", serde_json::to_string_pretty(&config)?);
    Ok(())
}

fn digest(executable: &Path) -> Result<String> {
    let bytes = fs::read(executable).with_context(|| format!("reading {}", executable.display()))?;
    Ok(format!("sha512-{:x}", Sha512::digest(bytes)))
}

/// Render the config: the executables with their digests, and the units in the directory `systemd`.
fn render(systemd: &Path, url: &str, digests: &[String; 2]) -> Result<Value> {
    let url = url.trim_end_matches('/');
    let files = EXECUTABLES.iter().zip(digests).map(|((name, path), digest)| {
        let contents = json!({"source": format!("{url}/{name}"), "verification": {"hash": digest}});
        json!({"path": path, "mode": 0o755, "contents": contents})
    });
    let directories = DIRECTORIES.map(|path| json!({"path": path, "mode": 0o755}));
    Ok(json!({
        "ignition": {"version": VERSION},
        "storage": {"directories": directories, "files": files.collect::<Vec<_>>()},
        "systemd": {"units": units(systemd)?},
    }))
}

/// List our units, enabled, and the drop-ins for other projects' units.
fn units(systemd: &Path) -> Result<Vec<Value>> {
    let mut units = Vec::new();
    for name in folder::names(systemd)? {
        let path = systemd.join(&name);
        if let Some(unit) = name.strip_suffix(".d") {
            let dropins = folder::names(&path)?.into_iter().map(|name| {
                let contents = fs::read_to_string(path.join(&name))?;
                Ok(json!({"name": name, "contents": contents}))
            });
            units.push(json!({"name": unit, "dropins": dropins.collect::<Result<Vec<_>>>()?}));
        } else if name.ends_with(".service") {
            units.push(json!({"name": name, "enabled": true, "contents": fs::read_to_string(path)?}));
        }
    }
    Ok(units)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_is_valid_and_has_every_unit() {
        let systemd = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../systemd"));
        let digests = ["a", "b"].map(|name| format!("sha512-{:x}", Sha512::digest(name)));
        let config = render(systemd, "https://downloads.example/0.1/", &digests).unwrap();
        let (parsed, warnings) = ignition_config::Config::parse_slice(config.to_string().as_bytes()).unwrap();
        assert!(warnings.is_empty(), "{warnings:?}");
        let ignition_config::Config::V3_4(parsed) = parsed else { panic!("another version") };
        let units = parsed.systemd.unwrap().units.unwrap();
        for name in folder::names(systemd).unwrap() {
            let name = name.strip_suffix(".d").unwrap_or(&name);
            let is_unit = name.ends_with(".service");
            assert_eq!(units.iter().any(|unit| unit.name == name), is_unit, "{name}");
        }
        let files = parsed.storage.unwrap().files.unwrap();
        let source = files[0].contents.as_ref().unwrap().source.as_ref().unwrap();
        assert_eq!(source, "https://downloads.example/0.1/flameholder");
    }
}
