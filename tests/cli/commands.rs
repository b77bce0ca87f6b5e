//! Help and versions: the texts about the program itself.

use std::ffi::OsStr;
use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::executables;
use testbed::model::document::{file, with_files};
use testbed::model::run::flameholder;
use testbed::model::tree::Tree;

#[test]
fn help_has_groups_and_each_command_examples_and_exit_codes() {
    let help = flameholder(["--help"]);
    assert_eq!(help.code, Some(0), "{help:?}");
    for part in ["\nLook at a host:\n  plan ", "\nChange a host:\n  apply ", "`flameholder help COMMAND`"] {
        assert!(help.stdout.contains(part), "{part}: {}", help.stdout);
    }
    assert!(!help.stdout.contains("confirm-boot"), "{}", help.stdout);
    let all = flameholder(["help", "--all"]);
    assert!(all.stdout.contains("\n  confirm-boot  After boot:"), "{}", all.stdout);
    let of_verify = flameholder(["help", "verify"]);
    for part in ["Usage: flameholder verify", "\nExamples:\n", "\n  2   found drift that counts\n"] {
        assert!(of_verify.stdout.contains(part), "{part}: {}", of_verify.stdout);
    }
    assert_eq!(of_verify.stdout, flameholder(["verify", "--help"]).stdout);
    let unknown = flameholder(["help", "verfy"]);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(64), ""), "{unknown:?}");
}

#[test]
fn version_names_what_is_loaded_at_run_time() {
    let text = flameholder(["version"]);
    assert_eq!(text.stdout, flameholder(["--version"]).stdout);
    let json = flameholder(["version", "-o", "json"]);
    let document: Value = serde_json::from_str(&json.stdout).unwrap();
    let libostree = document["worker"]["libostree"].as_str().unwrap();
    let is_version = libostree.split_once('.').is_some_and(|(year, _)| year.parse::<u32>().is_ok());
    assert!(is_version && text.stdout.contains(&format!(", libostree {libostree}\n")), "{json:?} {text:?}");
}

#[test]
fn quiet_command_prints_its_result_and_errors_only() {
    let (tree, folder) = (Tree::new(), tempfile::tempdir().unwrap());
    let mut config = with_files("rendered-worker-one", &[file("/etc/a", "a")]);
    // A reason for a warning.
    config["spec"]["config"]["storage"]["unknown"] = Value::Bool(true);
    let path = folder.path().join("config.json");
    fs::write(&path, config.to_string()).unwrap();
    let root = tree.root().to_str().unwrap();
    let plan = ["plan", "--root", root, "--desired", path.to_str().unwrap()];
    let loud = flameholder(plan);
    assert!(loud.stderr.starts_with("warning: "), "{loud:?}");
    let quiet = flameholder(["-q"].iter().chain(&plan));
    assert_eq!((quiet.code, quiet.stderr.as_str()), (Some(0), ""), "{quiet:?}");
    assert_eq!(quiet.stdout, loud.stdout);
    let refused = flameholder(["-q", "plan", "--root", root, "--desired", "/does/not/exist"]);
    assert!(refused.stderr.starts_with("error: "), "{refused:?}");
}

/// Arguments of a plan on `tree`, with its config in `folder`.
fn plan_arguments(tree: &Tree, folder: &TempDir) -> [String; 5] {
    let path = folder.path().join("config.json");
    fs::write(&path, with_files("rendered-worker-one", &[file("/etc/a", "a")]).to_string()).unwrap();
    ["plan", "--root", tree.root().to_str().unwrap(), "--desired", path.to_str().unwrap()].map(str::to_owned)
}

/// Return a command without the variables that decide about colours. `CI` is one: its logs show colours.
fn without_colour_variables(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI"] {
        command.env_remove(name);
    }
    command
}

#[test]
fn terminal_shows_styles_unless_it_cannot() {
    let (tree, folder) = (Tree::new(), tempfile::tempdir().unwrap());
    let line = plan_arguments(&tree, &folder).join(" ");
    let line = format!("{} {line}", executables::flameholder().display());
    for (term, is_coloured) in [("xterm", true), ("dumb", false)] {
        // script(1) gives the command a terminal.
        let mut command = without_colour_variables("script");
        command.args(["--quiet", "--return", "--command", &line, "/dev/null"]).env("TERM", term);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(output.stdout.windows(4).any(|bytes| bytes == b"\x1b[1m"), is_coloured, "{output:?}");
    }
}

#[test]
fn locale_without_utf_8_gets_ascii() {
    let (tree, folder) = (Tree::new(), tempfile::tempdir().unwrap());
    let arguments = plan_arguments(&tree, &folder);
    for (locale, title) in [
        ("C.UTF-8", "Plan: no config → rendered-worker-one  (profile native)\n"),
        ("C", "Plan: no config -> rendered-worker-one  (profile native)\n"),
    ] {
        let output = Command::new(executables::flameholder()).args(&arguments).env("LC_ALL", locale).output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        assert!(text.starts_with(title), "{text}");
        assert_eq!(text.is_ascii(), locale == "C", "{text}");
    }
}

#[test]
fn colours_follow_option_and_environment() {
    let (tree, folder) = (Tree::new(), tempfile::tempdir().unwrap());
    let arguments = plan_arguments(&tree, &folder);
    for (options, variable, is_coloured) in [
        (&[][..], None, false),
        (&["--color=always"][..], None, true),
        (&["--color=always"][..], Some(("NO_COLOR", "1")), true),
        (&[][..], Some(("CLICOLOR_FORCE", "1")), true),
        (&["--color=never"][..], Some(("CLICOLOR_FORCE", "1")), false),
    ] {
        let mut command = without_colour_variables(executables::flameholder());
        command.args(&arguments).args(options);
        let output = command.envs(variable).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(output.stdout.contains(&0x1b), is_coloured, "{options:?} {variable:?}");
    }
}

#[test]
fn failure_is_a_document_where_the_result_is_one() {
    let (tree, folder) = (Tree::new(), tempfile::tempdir().unwrap());
    let path = folder.path().join("config.json");
    let files = [file("etc/a", "a"), file("/etc/../b", "b")];
    let root = tree.root().to_str().unwrap();
    for (text, code, problems) in [
        (with_files("rendered-worker-one", &files).to_string(), 78, 2),
        ("{\"kind\": 1,\n}".to_owned(), 78, 1),
    ] {
        fs::write(&path, text).unwrap();
        let failed = flameholder(["plan", "--root", root, "--desired", path.to_str().unwrap(), "-o", "json"]);
        assert_eq!(failed.code, Some(code), "{failed:?}");
        let document: Value = serde_json::from_str(&failed.stdout).unwrap();
        let error = &document["error"];
        assert_eq!((&document["schema"], &error["code"]), (&json!(1), &json!(code)), "{document:#}");
        assert_eq!(failed.stderr, format!("error: {}\n", error["message"].as_str().unwrap()));
        assert_eq!(error["problems"].as_array().unwrap().len(), problems, "{document:#}");
        let first = &error["problems"][0];
        assert!(first["field"] == "spec.config.storage.files[0].path" || first["line"] == 2, "{document:#}");
    }
    let settings = tree.root().join("etc/flameholder/config.d");
    fs::create_dir_all(&settings).unwrap();
    fs::write(settings.join("10.toml"), "[drift]\nwhat = 1\n").unwrap();
    let status = flameholder(["status", "--root", root, "-o", "json"]);
    let document: Value = serde_json::from_str(&status.stdout).expect("one document");
    assert_eq!((status.code, document["error"].is_null()), (Some(78), true), "{document:#}");
    let missing = flameholder(["history", "--root", "/nowhere", "-o", "json"]);
    let document: Value = serde_json::from_str(&missing.stdout).unwrap();
    assert_eq!((missing.code, &document["error"]["problems"][0]["field"]), (Some(1), &Value::Null));
}

#[test]
fn reader_that_has_seen_enough_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(executables::flameholder());
    let output = command.arg("version").stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{output:?}");
}

#[test]
fn plan_ends_with_the_command_that_applies_it() {
    let (tree, folder) = (Tree::new(), tempfile::tempdir().unwrap());
    let path = folder.path().join("a config.json");
    fs::write(&path, with_files("rendered-worker-one", &[file("/etc/a", "a")]).to_string()).unwrap();
    let (root, path) = (tree.root().to_str().unwrap(), path.to_str().unwrap());
    let options = ["--root", root, "--desired", path, "--profile", "mcd", "--server-ca", "/ca.pem"];
    let plan = flameholder(["plan"].iter().chain(&options));
    assert_eq!(plan.code, Some(0), "{plan:?}");
    let (_, command) = plan.stdout.trim_end().rsplit_once(" Apply: ").expect("a command");
    let applied = Command::new("/bin/sh")
        .env("PATH", executables::flameholder().parent().unwrap())
        .args(["-c", &command.replace("flameholder apply", "exec flameholder apply")])
        .output();
    let applied = applied.unwrap();
    assert!(applied.status.success(), "{command}: {applied:?}");
    assert!(command.ends_with(" --profile mcd --server-ca /ca.pem"), "{command}");
    assert!(tree.root().join("etc/a").is_file(), "{command}");
}
