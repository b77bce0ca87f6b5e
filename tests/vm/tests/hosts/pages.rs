//! Commands of the book's pages that need a booted host.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use book::{BookPage, CommandPlace};
use vm::config::Config;
use vm::operator::run_until_rebooted;
use vm::{Host, HostOrigin, scenario};

use crate::prepared::{one, running_one, running_two, two};

/// Folder in which the commands run.
const FOLDER: &str = "/var/tmp/page";

/// Run the commands of a page in their order; `worker.yaml` has this config unless the page shows that file.
fn run_page(host: &mut Host, page: &str, worker: &Config) -> Result<()> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = BookPage::load(&repository, Path::new(page))?;
    host.run_ok(&format!("mkdir -p {FOLDER}"))?;
    host.write(&format!("{FOLDER}/worker.yaml"), worker.render())?;
    let blocks = page.blocks();
    for block in &blocks {
        if let Some(file) = block.file() {
            host.write(&format!("{FOLDER}/{file}"), block.lines.join("\n") + "\n")?;
        }
    }
    let on_a_host = blocks.iter().filter(|block| block.place() == Some(CommandPlace::Host));
    let mut number = 0;
    for block in on_a_host {
        for command in block.commands() {
            number += 1;
            let place = format!("{}:{}: `{}`", page.path.display(), block.line, command.text);
            if command.text.contains("--reboot auto") {
                run_until_rebooted(host, &format!("cd {FOLDER} && {}", command.text)).context(place)?;
                continue;
            }
            let ended = host.run(&format!("cd {FOLDER} && {{ {}\n}} 2>&1", command.text))?;
            ensure!(
                ended.code == i64::from(command.exit_code),
                "{place} ended with {} and printed: {}",
                ended.code,
                ended.stdout
            );
        }
    }
    ensure!(number > 0, "{} has no command for a booted host", page.path.display());
    Ok(())
}

fn on(origin: HostOrigin, worker: impl FnOnce(&Host) -> Config, pages: &[&str]) -> Result<()> {
    scenario(origin, |host| {
        let worker = worker(host);
        pages.iter().try_for_each(|page| run_page(host, page, &worker))
    })
}

#[test]
#[ignore = "exhaustive: other scenarios call the same commands"]
fn first_update_goes_as_its_page_says() -> Result<()> {
    on(running_one()?, |_| one(), &["docs/usage/first-update.md"])
}

#[test]
#[ignore = "exhaustive: other scenarios call the same commands"]
fn daemon_is_started_and_operated_as_the_pages_say() -> Result<()> {
    let pages = [
        "docs/usage/install.md",
        "docs/start/coreos.md",
        "docs/usage/operating.md",
        "docs/usage/health-checks.md",
        "docs/usage/reboot-policy.md",
        "docs/usage/metrics-and-alerts.md",
        "docs/usage/runbook.md",
        "docs/usage/recover-by-hand.md",
    ];
    on(running_two()?, two, &pages)
}

#[test]
#[ignore = "exhaustive: other scenarios update and roll back by themselves as well"]
fn demo_is_told_to_its_end() -> Result<()> {
    scenario(HostOrigin::Fresh, vm::story::tell)
}
