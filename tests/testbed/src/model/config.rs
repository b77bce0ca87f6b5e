//! Second parser of rendered `MachineConfig`s, written from their specification and not from the product's
//! code.

use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::MultiGzDecoder;
use serde_json::Value;

/// Decoded content of a `MachineConfig`.
#[derive(Debug, Default)]
pub struct Config {
    pub name: String,
    pub files: BTreeMap<String, File>,
    pub directories: BTreeMap<String, Directory>,
    /// Targets of symbolic links, by path.
    pub links: BTreeMap<String, String>,
    /// Targets of hard links, by path.
    pub hard_links: BTreeMap<String, String>,
    /// In listing order.
    pub units: Vec<Unit>,
    /// Lines of `core`'s key file; `None` if the config does not list `core`.
    pub keys: Option<Vec<String>>,
    pub hash: Option<String>,
    pub kernel_arguments: Vec<String>,
    pub extensions: Vec<String>,
    pub kernel_type: String,
    pub os_image: String,
    pub fips: bool,
}

/// File as it must be on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub bytes: Vec<u8>,
    pub mode: u32,
    pub user: Owner,
    pub group: Owner,
}

/// Directory as it must be on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    pub mode: u32,
    pub user: Owner,
    pub group: Owner,
}

/// User or group as the config spells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    Id(u32),
    Name(String),
}

/// Unit and its drop-ins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    pub name: String,
    /// Empty if the config does not provide the unit's own file.
    pub contents: String,
    pub enabled: Option<bool>,
    pub mask: bool,
    /// Contents by name; an empty text removes the drop-in.
    pub dropins: BTreeMap<String, String>,
}

impl Unit {
    /// True if the config provides this unit's file.
    pub fn is_written(&self) -> bool {
        !self.mask && !self.contents.is_empty()
    }

    /// Lines of the `[Install]` section.
    pub fn install(&self) -> Vec<&str> {
        let lines = self.contents.lines().map(str::trim);
        lines
            .skip_while(|line| *line != "[Install]")
            .skip(1)
            .take_while(|line| !line.starts_with('['))
            .collect()
    }
}

impl Config {
    /// Read a `MachineConfig`. If a list of an Ignition 2 config has duplicates, the last entry wins; a unit
    /// also keeps other drop-ins of earlier entries, and a user other keys of them.
    pub fn read(document: &Value) -> Self {
        let spec = &document["spec"];
        let ignition = &spec["config"];
        let kernel_type = spec["kernelType"].as_str();
        let kernel_type = kernel_type.filter(|kind| ["realtime", "64k-pages"].contains(kind));
        let mut config = Self {
            name: text(&document["metadata"]["name"]),
            kernel_arguments: strings(&spec["kernelArguments"]),
            extensions: strings(&spec["extensions"]),
            kernel_type: kernel_type.unwrap_or("default").to_owned(),
            os_image: text(&spec["osImageURL"]),
            fips: spec["fips"] == true,
            ..Self::default()
        };
        for entry in list(&ignition["storage"]["files"]) {
            config.files.insert(text(&entry["path"]), read_file(entry));
        }
        for entry in list(&ignition["storage"]["directories"]) {
            let (user, group) = (read_owner(&entry["user"]), read_owner(&entry["group"]));
            let directory = Directory { mode: read_mode(entry, 0o755), user, group };
            config.directories.insert(text(&entry["path"]), directory);
        }
        for entry in list(&ignition["storage"]["links"]) {
            let links = if entry["hard"] == true { &mut config.hard_links } else { &mut config.links };
            links.insert(text(&entry["path"]), text(&entry["target"]));
        }
        for entry in list(&ignition["systemd"]["units"]) {
            config.list_unit(read_unit(entry));
        }
        for user in list(&ignition["passwd"]["users"]).iter().rev() {
            assert_eq!(user["name"], "core", "`core` is the only user");
            if config.keys.is_none() {
                config.hash = user["passwordHash"].as_str().map(str::to_owned);
            }
            let keys = config.keys.get_or_insert_default();
            for key in strings(&user["sshAuthorizedKeys"]) {
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
        }
        config
    }

    /// The unit of this name, if it is listed.
    pub fn unit(&self, name: &str) -> Option<&Unit> {
        self.units.iter().find(|unit| unit.name == name)
    }

    fn list_unit(&mut self, mut unit: Unit) {
        if let Some(at) = self.units.iter().position(|listed| listed.name == unit.name) {
            for (name, contents) in self.units.remove(at).dropins {
                unit.dropins.entry(name).or_insert(contents);
            }
        }
        self.units.push(unit);
    }
}

fn read_file(entry: &Value) -> File {
    let mut bytes = read_contents(&entry["contents"]);
    bytes.extend(list(&entry["append"]).iter().flat_map(read_contents));
    let (user, group) = (read_owner(&entry["user"]), read_owner(&entry["group"]));
    File { bytes, mode: read_mode(entry, 0o644), user, group }
}

fn read_contents(entry: &Value) -> Vec<u8> {
    // Ignition treats the empty URL as an empty file.
    let source = entry["source"].as_str().filter(|source| !source.is_empty());
    let bytes = source.map(decode_data_url).unwrap_or_default();
    if entry["compression"] != "gzip" {
        return bytes;
    }
    let mut inflated = Vec::new();
    MultiGzDecoder::new(bytes.as_slice()).read_to_end(&mut inflated).expect("gzip");
    inflated
}

fn read_mode(entry: &Value, default: u32) -> u32 {
    entry["mode"].as_u64().map_or(default, |mode| u32::try_from(mode).expect("a mode"))
}

/// An ID takes precedence over a name; without both the owner is root.
fn read_owner(entry: &Value) -> Owner {
    match (entry["id"].as_u64(), entry["name"].as_str()) {
        (Some(id), _) => Owner::Id(u32::try_from(id).expect("an id")),
        (None, Some(name)) if !name.is_empty() => Owner::Name(name.to_owned()),
        _ => Owner::Id(0),
    }
}

fn read_unit(entry: &Value) -> Unit {
    let dropins =
        list(&entry["dropins"]).iter().map(|dropin| (text(&dropin["name"]), text(&dropin["contents"])));
    Unit {
        name: text(&entry["name"]),
        contents: text(&entry["contents"]),
        enabled: entry["enabled"].as_bool(),
        mask: entry["mask"] == true,
        dropins: dropins.collect(),
    }
}

/// Decode a data URL (RFC 2397).
fn decode_data_url(url: &str) -> Vec<u8> {
    let rest = url.strip_prefix("data:").expect("a data URL");
    let (media_type, payload) = rest.split_once(',').expect("a comma");
    let payload = decode_percent(payload);
    if media_type.ends_with(";base64") { decode_base64(&payload) } else { payload }
}

fn decode_percent(text: &str) -> Vec<u8> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(if byte == b'%' {
            let digits = [bytes.next().expect("a digit"), bytes.next().expect("a second digit")];
            u8::from_str_radix(str::from_utf8(&digits).expect("ASCII"), 16).expect("hexadecimal")
        } else {
            byte
        });
    }
    decoded
}

/// Six bits per character, most significant first; bits that padding leaves over are dropped.
fn decode_base64(text: &[u8]) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut decoded = Vec::with_capacity(text.len() * 3 / 4);
    let (mut held, mut bits) = (0_usize, 0);
    for letter in text.iter().take_while(|letter| **letter != b'=') {
        held = (held << 6 | ALPHABET.iter().position(|known| known == letter).expect("base64")) & 0xfff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            decoded.push(u8::try_from(held >> bits & 0xff).expect("eight bits"));
        }
    }
    decoded
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn strings(value: &Value) -> Vec<String> {
    list(value).iter().map(text).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
