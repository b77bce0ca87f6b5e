//! Commands of the pages.

use std::fs;
use std::time::Duration;

use book::{BookContents, BookPage, CommandPlace};
use testbed::{preconditions, repository};
use trycmd::TestCases;

use crate::folder::CommandFolder;
use crate::script;

/// At most one command in this number does not run.
const NOT_RUN: usize = 10;

fn pages() -> Vec<BookPage> {
    BookContents::load(&repository()).unwrap().pages().unwrap()
}

/// Name of a page's script.
fn name(page: &BookPage) -> String {
    page.path.with_extension("").to_string_lossy().replace('/', "-")
}

#[test]
fn commands_print_what_the_pages_show() {
    preconditions::require_root();
    preconditions::require_installed(&["promtool"]);
    let folder = CommandFolder::create();
    // trycmd then writes the output of the commands.
    let is_blessed = std::env::var_os("TRYCMD").is_some_and(|mode| mode == "overwrite");
    let cases = TestCases::new();
    let path = std::env::join_paths(
        std::iter::once(folder.bin())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    cases
        .register_bin(script::RUN, folder.bin().join(script::RUN))
        .env("PATH", path.unwrap().to_str().unwrap())
        .env("EXECUTABLE", testbed::executables::flameholder().to_str().unwrap())
        .env("LC_ALL", "C.UTF-8")
        .timeout(Duration::from_secs(120));
    let pages: Vec<_> = pages().into_iter().filter(|page| !script::blocks(page).is_empty()).collect();
    for page in &pages {
        let name = name(page);
        folder.copy_for(page, &name);
        let script = folder.path().join(format!("{name}.md"));
        fs::write(&script, script::script(page)).unwrap();
        cases.case(&script);
    }
    cases.run();
    for page in pages.iter().filter(|_| is_blessed) {
        let printed = fs::read_to_string(folder.path().join(format!("{}.md", name(page)))).unwrap();
        fs::write(repository().join(&page.path), script::blessed(page, &printed).text()).unwrap();
    }
}

#[test]
fn nearly_all_commands_run_and_the_others_have_a_reason() {
    let (mut all, mut not_run) = (0, 0);
    for page in pages() {
        for block in page.blocks().into_iter().filter(|block| block.place().is_some()) {
            let place = format!("{}:{}", page.path.display(), block.line);
            let commands = block.commands().len();
            assert!(commands > 0, "{place}: a block of commands has none; a command begins with `$ `");
            all += commands;
            if block.place() == Some(CommandPlace::Nowhere) {
                not_run += commands;
                assert!(
                    block.reason().is_some(),
                    "{place}: write `<!-- not run: REASON -->` above commands that do not run"
                );
            }
        }
    }
    assert!(not_run * NOT_RUN <= all, "{not_run} of {all} commands do not run, more than one in {NOT_RUN}");
}

#[test]
fn commands_of_operators_are_in_blocks_that_run() {
    let programs = ["flameholder", "systemctl", "journalctl", "kubectl", "oc", "ostree", "rpm-ostree"];
    let mut faults = Vec::new();
    for page in pages().iter().filter(|page| !page.path.starts_with("docs/development")) {
        for block in page.blocks().into_iter().filter(|block| block.place().is_none()) {
            let is_shell = ["sh", "bash", "shell", "console"].contains(&block.language());
            let is_script = block.lines.first().is_some_and(|line| line.starts_with("#!"));
            let command = block.lines.iter().find(|line| {
                let line = line.strip_prefix("$ ").unwrap_or(line);
                programs.iter().any(|program| line.split(' ').next() == Some(program))
            });
            if (is_shell && !is_script) || (block.info.is_none() && command.is_some()) {
                faults.push(format!(
                    "{}:{}: commands that are in no block of the language `console`",
                    page.path.display(),
                    block.line
                ));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}
