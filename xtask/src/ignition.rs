//! `cargo xtask ignition`: an Ignition config that installs Flameholder on OS images without it.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha512};

use crate::project_tree::ProjectTree;
use crate::{folder, install};

/// The version of the config; Ignition 2.15 and later read it.
const VERSION: &str = "3.4.0";
/// Executables and their destinations: `/usr` belongs to the OS image.
const EXECUTABLES: [(&str, &str); 2] = [
    ("flameholder", "/usr/local/bin/flameholder"),
    ("flameholder-ostree", "/usr/local/libexec/flameholder/flameholder-ostree"),
];
/// Directories that Ignition creates for them.
const DIRECTORIES: [&str; 2] = ["/usr/local/libexec", "/usr/local/libexec/flameholder"];

/// Place of a system extension's image on a host, without the file.
const EXTENSIONS: &str = "/var/lib/extensions";
/// Folder with the units that differ on hosts with a system extension.
const EXTENSION_UNITS: &str = "sysext";

/// Place that the machine has the files from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileSource {
    /// Directory at this URL, from which the machine downloads them.
    Url(String),
    /// The config itself.
    Config,
}

impl FileSource {
    /// Return the contents of a file, as an Ignition config names them.
    fn contents(&self, file: &Path) -> Result<Value> {
        let name = file.file_name().context("the file has no name")?.display();
        let bytes = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
        match self {
            Self::Url(url) => {
                let hash = format!("sha512-{:x}", Sha512::digest(bytes));
                let source = format!("{}/{name}", url.trim_end_matches('/'));
                Ok(json!({"source": source, "verification": {"hash": hash}}))
            }
            Self::Config => {
                let text = BASE64_STANDARD.encode(install::compressed(&bytes)?);
                Ok(json!({"source": format!("data:;base64,{text}"), "compression": "gzip"}))
            }
        }
    }
}

/// Print the config. The machine has from `source` the executables of the release build, or the image of the system
/// `extension` in their place.
pub fn print(workspace: &ProjectTree, source: &FileSource, extension: Option<&Path>) -> Result<()> {
    let systemd = workspace.root().join("systemd");
    let config = if let Some(image) = extension {
        render_extension(&systemd, &source.contents(image)?)?
    } else {
        workspace.build_release()?;
        let [agent, worker] = EXECUTABLES.map(|(name, _)| source.contents(&workspace.executable(name)));
        render(&systemd, &[agent?, worker?])?
    };
    println!("{}", serde_json::to_string_pretty(&config)?);
    Ok(())
}

/// Render the config: the executables with these contents, and the units in the directory `systemd`.
fn render(systemd: &Path, executables: &[Value; 2]) -> Result<Value> {
    let files = EXECUTABLES
        .iter()
        .zip(executables)
        .map(|((_, path), contents)| json!({"path": path, "mode": 0o755, "contents": contents}));
    let directories = DIRECTORIES.map(|path| json!({"path": path, "mode": 0o755}));
    Ok(json!({
        "ignition": {"version": VERSION},
        "storage": {"directories": directories, "files": files.collect::<Vec<_>>()},
        "systemd": {"units": units(systemd, None)?},
    }))
}

/// Render the config of a system extension: its image with these contents, and the units, which an extension cannot bring.
fn render_extension(systemd: &Path, contents: &Value) -> Result<Value> {
    let mut units = units(systemd, Some(&systemd.join(EXTENSION_UNITS)))?;
    units.push(json!({"name": "systemd-sysext.service", "enabled": true}));
    Ok(json!({
        "ignition": {"version": VERSION},
        "storage": {
            "directories": [{"path": EXTENSIONS, "mode": 0o755}],
            // systemd takes the name of the extension from the file, and demands that its release file has the same.
            "files": [{"path": format!("{EXTENSIONS}/flameholder.raw"), "mode": 0o644, "contents": contents}],
        },
        "systemd": {"units": units},
    }))
}

/// List our units, enabled, and the drop-ins for other projects' units. A file of the same name in `instead` takes the place
/// of another.
fn units(systemd: &Path, instead: Option<&Path>) -> Result<Vec<Value>> {
    let read = |name: &str| {
        let other = instead.map(|folder| folder.join(name)).filter(|path| path.is_file());
        let path = other.unwrap_or_else(|| systemd.join(name));
        fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    };
    let mut units = Vec::new();
    for name in folder::names(systemd)? {
        if let Some(unit) = name.strip_suffix(".d") {
            let dropins = folder::names(&systemd.join(&name))?
                .into_iter()
                .map(|dropin| Ok(json!({"name": dropin, "contents": read(&format!("{name}/{dropin}"))?})));
            units.push(json!({"name": unit, "dropins": dropins.collect::<Result<Vec<_>>>()?}));
        } else if name.ends_with(".service") {
            units.push(json!({"name": name, "enabled": true, "contents": read(&name)?}));
        }
    }
    Ok(units)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn config_is_valid_and_has_every_unit() {
        let systemd = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../systemd"));
        let folder = tempfile::tempdir().unwrap();
        let source = FileSource::Url("https://downloads.example/0.1/".to_owned());
        let executables = EXECUTABLES.map(|(name, _)| {
            let file = folder.path().join(name);
            fs::write(&file, name).unwrap();
            source.contents(&file).unwrap()
        });
        let config = render(systemd, &executables).unwrap();
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

    #[test]
    fn config_of_a_machine_without_network_has_the_files_in_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, "executable").unwrap();
        let contents = FileSource::Config.contents(file.path()).unwrap();
        assert_eq!(contents["compression"], "gzip");
        let text = contents["source"].as_str().unwrap().strip_prefix("data:;base64,").unwrap();
        let compressed = BASE64_STANDARD.decode(text).unwrap();
        let mut read = String::new();
        flate2::read::GzDecoder::new(compressed.as_slice()).read_to_string(&mut read).unwrap();
        assert_eq!(read, "executable");
    }

    #[test]
    fn extension_comes_with_units_that_wait_for_it() {
        let systemd = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../systemd"));
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("flameholder-1-x86-64.raw");
        fs::write(&image, "image").unwrap();
        let source = FileSource::Url("https://downloads.example/1".to_owned());
        let config = render_extension(systemd, &source.contents(&image).unwrap()).unwrap();
        let (_, warnings) = ignition_config::Config::parse_slice(config.to_string().as_bytes()).unwrap();
        assert!(warnings.is_empty(), "{warnings:?}");
        let file = &config["storage"]["files"][0];
        assert_eq!(file["path"], "/var/lib/extensions/flameholder.raw");
        assert_eq!(file["contents"]["source"], "https://downloads.example/1/flameholder-1-x86-64.raw");
        let units = config["systemd"]["units"].as_array().unwrap();
        let of = |name: &str| units.iter().find(|unit| unit["name"] == name).unwrap();
        assert_eq!(of("systemd-sysext.service")["enabled"], true);
        let activate = of("flameholder-activate.service")["contents"].as_str().unwrap();
        assert!(activate.contains("\nAfter=systemd-sysext.service\n"), "{activate}");
        let finalize = of("ostree-finalize-staged.service")["dropins"][0]["contents"].as_str().unwrap();
        assert!(finalize.contains("\nAfter=systemd-sysext.service\n"), "{finalize}");
        assert!(
            of("flameholder-daemon.service")["contents"].as_str().unwrap().contains("flameholder daemon")
        );
    }
}
