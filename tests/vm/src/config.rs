//! Rendered configs for the guest. Their witness files hold the name of the config.

use serde_json::{Value, json};

/// Return a data URL with this text.
#[must_use]
pub fn data_url(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    format!("data:,{}", text.bytes().map(escape).collect::<String>())
}

/// Return the text of a data URL that [`data_url`] made.
#[must_use]
pub fn text_of(data_url: &str) -> String {
    let mut pieces = data_url.trim_start_matches("data:,").split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let (byte, rest) = piece.split_at_checked(2).unwrap_or(("3F", piece));
        bytes.push(u8::from_str_radix(byte, 16).unwrap_or(b'?'));
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn data_url_round_trips() {
    for text in ["", "a b\n", "[boot-check]\nname = \"%\"\n", "ö"] {
        assert_eq!(text_of(&data_url(text)), text);
    }
}

/// Builder of a rendered config (MachineConfig).
#[derive(Debug, Clone)]
#[must_use]
pub struct Config {
    name: String,
    image: Option<String>,
    kernel_arguments: Vec<String>,
    files: Vec<Value>,
    units: Vec<Value>,
    keys: Vec<String>,
}

impl Config {
    /// Return a config with the witness files `/etc/witness`, `/usr/local/witness` and `/var/witness`, which
    /// hold its name.
    pub fn named(name: &str) -> Self {
        let config = Self {
            name: name.to_owned(),
            image: None,
            kernel_arguments: Vec::new(),
            files: Vec::new(),
            units: Vec::new(),
            keys: Vec::new(),
        };
        config.file("/etc/witness", name).file("/usr/local/witness", name).file("/var/witness", name)
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Set the OS image, by its reference.
    pub fn image(mut self, reference: &str) -> Self {
        self.image = Some(reference.to_owned());
        self
    }

    /// Add a kernel argument.
    pub fn kernel_argument(mut self, argument: &str) -> Self {
        self.kernel_arguments.push(argument.to_owned());
        self
    }

    /// Add a file of mode 0644.
    pub fn file(self, path: &str, contents: &str) -> Self {
        self.file_of_mode(path, contents, 0o644)
    }

    /// Add a file of the given mode.
    pub fn file_of_mode(mut self, path: &str, contents: &str, mode: u32) -> Self {
        let source = data_url(contents);
        self.files
            .push(json!({"path": path, "mode": mode, "overwrite": true, "contents": {"source": source}}));
        self
    }

    /// Add an enabled unit, which writes the name of the config to `/run/UNIT.ran`.
    pub fn unit(mut self, name: &str) -> Self {
        let contents = format!(
            "[Unit]\nAfter=flameholder-activate.service\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c 'echo {} > /run/{name}.ran'\n[Install]\nWantedBy=multi-user.target\n",
            self.name
        );
        self.units.push(json!({"name": name, "enabled": true, "contents": contents}));
        self
    }

    /// Add an SSH key of the user `core`.
    pub fn key(mut self, key: &str) -> Self {
        self.keys.push(key.to_owned());
        self
    }

    /// Render the config as JSON.
    #[must_use]
    pub fn render(&self) -> String {
        let users = if self.keys.is_empty() {
            json!([])
        } else {
            json!([{"name": "core", "sshAuthorizedKeys": self.keys}])
        };
        json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfig",
            "metadata": {"name": self.name},
            "spec": {
                "osImageURL": self.image.as_deref().unwrap_or_default(),
                "kernelArguments": self.kernel_arguments,
                "config": {
                    "ignition": {"version": "3.4.0"},
                    "passwd": {"users": users},
                    "storage": {"files": self.files},
                    "systemd": {"units": self.units},
                },
            },
        })
        .to_string()
    }
}
