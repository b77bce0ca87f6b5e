//! Live line of a fetch on a terminal.

use std::process::Command;
use std::time::Duration;

use osimage::{ImageRegistry, LinkSpeed, Os, RegistryAnswers};
use testbed::executables;
use testbed::offline::{Host, small_config};

/// Columns of the terminal.
const COLUMNS: usize = 80;
/// Moves the cursor up to the line above.
const UP: &str = "\u{1b}[1A";

#[test]
fn live_line_of_a_fetch_has_rate_and_rest_and_stays_one_line() {
    let host = Host::new();
    let digest = osimage::write_image(&Os::new(2), &host.path("v2"), None).unwrap();
    let speed = LinkSpeed { delay: Duration::from_millis(50), rate: 4096 };
    let registry = ImageRegistry::start(RegistryAnswers::Distant(host.path("v2"), speed)).unwrap();
    registry.write_home(&host.path("home")).unwrap();
    let apply = format!(
        "stty cols {COLUMNS}; exec {} apply --sysroot {} --desired {} --os-image {}/os@{digest}",
        executables::flameholder().display(),
        host.sysroot().display(),
        host.config(&small_config("slow", &[("/etc/a", "a")], &[])).display(),
        registry.address(),
    );
    // script(1) gives the command a terminal.
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &apply, "/dev/null"]);
    command.env("TERM", "xterm").env("HOME", host.path("home"));
    let output = command.output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{shown}");

    let lines = shown.split(['\r', '\n']).map(|line| line.trim_start_matches("\u{1b}[2K"));
    let live: Vec<&str> = lines.filter(|line| line.contains("% of ")).collect();
    assert!(live.iter().any(|line| line.contains("/s, ") && line.ends_with(" left")), "{live:?}");
    for line in live {
        assert!(line.chars().count() <= COLUMNS, "{line:?}");
    }
    assert!(!shown.contains(UP), "a line that wraps is cleared from the line above: {shown:?}");
}
