//! dbus-daemon, started for a test.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Starts it with this configuration, and returns once it listens: the process, its address, and the rest of its output.
/// Whoever it starts writes there too.
pub fn launch(config: &Path, errors: Stdio) -> (Child, String, BufReader<ChildStdout>) {
    let mut process = Command::new("dbus-daemon")
        .args(["--nofork", "--print-address=1"])
        .arg(format!("--config-file={}", config.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors)
        .spawn()
        .unwrap();
    // It prints the address when it listens.
    let mut address = String::new();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    output.read_line(&mut address).unwrap();
    (process, address.trim().to_owned(), output)
}
