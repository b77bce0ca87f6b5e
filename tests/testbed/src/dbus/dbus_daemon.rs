//! dbus-daemon, started for a test.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Start dbus-daemon with this configuration, and return its process, address and remaining output once it
/// listens. Services that it starts write to the same output.
pub fn launch(config: &Path, errors: Stdio) -> (Child, String, BufReader<ChildStdout>) {
    let mut process = Command::new("dbus-daemon")
        .args(["--nofork", "--print-address=1"])
        .arg(format!("--config-file={}", config.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors)
        .spawn()
        .unwrap();
    // The daemon prints its address when it listens.
    let mut address = String::new();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    output.read_line(&mut address).unwrap();
    (process, address.trim().to_owned(), output)
}
