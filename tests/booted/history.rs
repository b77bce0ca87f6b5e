//! History of a host: updates, rollbacks and repairs, in the order in which they happened.

use serde_json::Value;
use testbed::booted::config::{full_config, unhealthy_config};
use testbed::booted::host::{Host, confirmed_host};

fn history(host: &Host) -> Value {
    serde_json::from_str(&host.run_ok(["flameholder", "history", "-o", "json", "--lines", "0"])).unwrap()
}

/// Names of the events, with their configs.
fn events(history: &Value) -> Vec<String> {
    let events = history["events"].as_array().unwrap().iter();
    let shown = |event: &Value| match event["config"].as_str() {
        Some(config) => format!("{} {config}", event["event"].as_str().unwrap()),
        None => event["event"].as_str().unwrap().to_owned(),
    };
    events.map(shown).collect()
}

#[test]
fn update_is_told_from_its_staging_to_its_confirmation() {
    let host = confirmed_host("one");
    host.update(&host.config(full_config("two").json()), None);
    let history = history(&host);
    let update = |config: &str| {
        ["staged", "unlocked", "finalized", "booted", "confirmed"].map(|event| format!("{event} {config}"))
    };
    assert_eq!(events(&history), [update("rendered-one"), update("rendered-two")].concat());
    let entries = history["events"].as_array().unwrap();
    let (staged, confirmed) = (&entries[5], &entries[9]);
    assert_eq!(staged["previousGeneration"], entries[4]["generation"]);
    assert_eq!(staged["requester"]["command"], "apply");
    assert_eq!(entries[7]["requester"]["command"], "finalize");
    assert_eq!(confirmed["generation"], host.status()["deployments"][0]["generation"]["generation"]);
    let phases: Vec<&str> = confirmed["phases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|phase| phase["phase"].as_str().unwrap())
        .collect();
    assert_eq!(phases, ["Draining", "ShuttingDown", "Rebooting", "CheckingBoot"]);
    let text = host.run_ok(["flameholder", "history", "-n", "2"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "8 older events are not shown; `--lines 0` shows all");
    assert!(lines[1].contains("Z  booted ") && lines[1].ends_with("[activate]"), "{text}");
    assert!(lines[2].contains("confirmed") && lines[2].contains("rendered-two; generation "), "{text}");
    // An image is named where it changes.
    let mut images: Vec<&str> = entries.iter().filter_map(|entry| entry["image"].as_str()).collect();
    assert_eq!(images.len(), entries.len());
    images.dedup();
    let text = host.run_ok(["flameholder", "history"]);
    assert_eq!(text.matches("; image ").count(), images.len(), "{text}");
}

#[test]
fn rollback_is_told_with_its_reason_once() {
    let host = confirmed_host("one");
    host.stage_update(&host.config(unhealthy_config("two").json()), None);
    host.reboot_unchecked();
    host.reboot_unchecked();
    let retried = host.run_ok(["flameholder", "retry"]);
    assert!(retried.contains("rendered-two"), "{retried}");
    let history = history(&host);
    let events = events(&history);
    let after = events.iter().position(|event| event == "booted rendered-two").unwrap();
    let rest: Vec<&str> = events[after + 1..].iter().map(String::as_str).collect();
    assert_eq!(rest, ["rolledBack rendered-two", "blocked rendered-two", "unblocked rendered-two"]);
    let entry = &history["events"][after + 1];
    assert!(entry["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{entry}");
}

#[test]
fn live_update_names_what_it_changed() {
    let host = confirmed_host("one");
    let config = full_config("one").key("ssh-ed25519 AAAA another");
    assert_eq!(host.apply(&host.config(config.json()), None).code, Some(0));
    let history = history(&host);
    let last = history["events"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        (last["event"].as_str(), last["requester"]["command"].as_str()),
        (Some("applied"), Some("apply"))
    );
    assert!(last["pathCount"].as_u64() >= Some(1) && !last["paths"].as_array().unwrap().is_empty(), "{last}");
    assert!(last["seconds"].is_u64(), "{last}");
}

#[test]
fn damaged_history_keeps_nothing_from_working() {
    let host = confirmed_host("one");
    let path = host.var("lib/flameholder/history");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, [b"nonsense\n".as_slice(), &bytes, b"torn"].concat()).unwrap();
    let before = history(&host);
    assert_eq!((events(&before).len(), before["damagedLines"].as_u64()), (5, Some(1)));
    host.update(&host.config(full_config("two").json()), None);
    assert_eq!(events(&history(&host)).len(), 10);
    // A history that another program filled is set aside.
    std::fs::write(&path, vec![b'x'; 5 << 20]).unwrap();
    let refused = host.run(["flameholder", "history"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("larger than"), "{refused:?}");
    assert_eq!(host.apply(&host.config(full_config("three").json()), None).code, Some(0));
    assert_eq!(events(&history(&host)), ["staged rendered-three", "unlocked rendered-three"]);
    assert!(host.var("lib/flameholder/history.unreadable").exists());
    host.run_ok(["flameholder", "unstage"]);
    // A history that cannot be written, as on a full disk, is no reason to fail an update.
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    let outcome = host.apply(&host.config(full_config("three").json()), None);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stderr.contains("cannot add to the history"), "{outcome:?}");
}
