//! What each command says, and with which exit code it ends, in each state of a host: one snapshot per state, and one
//! table of the exit codes. `cargo insta review` shows what a change does to them.

mod host_state;

use std::fmt::Write as _;
use std::thread;

use host_state::HostState;
use testbed::booted::host::{Host, confirmed_host};
use testbed::model::run::Outcome;

/// Commands of an operator, with their arguments. `two` stands for a config that needs a reboot.
const COMMANDS: [&[&str]; 12] = [
    &["plan", "--desired", "two"],
    &["plan", "--desired", "two", "--exit-code", "-o", "json"],
    &["apply", "--desired", "two"],
    &["apply", "--desired", "two", "--locked"],
    &["status"],
    &["status", "--exit-code"],
    &["verify"],
    &["unstage"],
    &["rollback"],
    &["retry"],
    &["recover"],
    &["etc-diff"],
];

/// What differs between two runs, by its pattern.
const VARYING: [(&str, &str); 13] = [
    (r"\b[0-9a-f]{64}\b", "[digest]"),
    (r"\b[0-9a-f]{32}\b", "[generation]"),
    (r"(generation +\(?)[0-9a-f]{12}\b", "$1[generation]"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ( \([^)]* ago\))?", "[time]"),
    (r"\b[0-9a-f]{12}\.(\d)", "[commit].$1"),
    (r"\d\d:\d\d:\d\dZ \[", "[clock] ["),
    (r"\d+\.\d s\b", "[time]"),
    (r"oci:\S+", "oci:[image]"),
    (r"\d+ of \d+ MiB", "[free] of [size] MiB"),
    (r"\d+(\.\d+)? [KMG]iB", "[size]"),
    (r"\d+ min \d+ s left", "[time] left"),
    (r"\d+ more seconds", "[seconds] more seconds"),
    (r"agent: +\S+", "agent: [version]"),
];

/// Run a command in a state, on a host of its own.
fn run(host: &Host, state: HostState, command: &[&str]) -> Outcome {
    let copy = host.copy();
    let line = command.iter().map(|word| if *word == "two" { state.desired() } else { (*word).to_owned() });
    let program = ["env", "LC_ALL=C.UTF-8", "flameholder"].map(str::to_owned);
    let line: Vec<String> = program.into_iter().chain(line).collect();
    copy.run(state.prefix().iter().map(ToString::to_string).chain(line))
}

/// Outcomes of all commands in one state, in the order of [`COMMANDS`].
fn outcomes(base: &Host, state: HostState) -> Vec<Outcome> {
    let host = base.copy();
    state.enter(&host);
    COMMANDS.iter().map(|command| run(&host, state, command)).collect()
}

/// Text of a snapshot: each command with its exit code, its output and its errors.
fn text(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for (command, outcome) in COMMANDS.iter().zip(outcomes) {
        let code = outcome.code.map_or_else(|| "none".to_owned(), |code| code.to_string());
        // The whole document is in the schema; an operator reads the text, once.
        let output = if command.contains(&"--exit-code") { "" } else { &outcome.stdout };
        writeln!(text, "$ flameholder {}   => {code}\n{output}", command.join(" ")).unwrap();
        for line in outcome.stderr.lines() {
            writeln!(text, "stderr: {line}").unwrap();
        }
    }
    text
}

/// Table of the exit codes: a row for each command, a column for each state.
fn table(rows: &[(HostState, Vec<Outcome>)]) -> String {
    let mut table = format!("{:45}", "");
    for (state, _) in rows {
        write!(table, " {:>8}", state.column()).unwrap();
    }
    for (index, command) in COMMANDS.iter().enumerate() {
        write!(table, "\n{:45}", command.join(" ")).unwrap();
        for (_, outcomes) in rows {
            write!(table, " {:>8}", outcomes[index].code.unwrap_or(-1)).unwrap();
        }
    }
    table
}

#[test]
fn commands_tell_the_truth_in_every_state_of_the_host() {
    let base = confirmed_host("one");
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    for (pattern, shown) in VARYING {
        settings.add_filter(pattern, shown);
    }
    let rows: Vec<(HostState, Vec<Outcome>)> = HostState::ALL
        .chunks(2)
        .flat_map(|pair| {
            let hosts: Vec<Host> = pair.iter().map(|_| base.copy()).collect();
            thread::scope(|scope| {
                let runs: Vec<_> = pair
                    .iter()
                    .zip(hosts)
                    .map(|(state, host)| scope.spawn(move || (*state, outcomes(&host, *state))))
                    .collect();
                runs.into_iter().map(|run| run.join().unwrap()).collect::<Vec<_>>()
            })
        })
        .collect();
    settings.bind(|| {
        insta::assert_snapshot!("exit_codes", table(&rows));
        for (state, outcomes) in &rows {
            insta::assert_snapshot!(state.name(), text(outcomes));
        }
    });
}
