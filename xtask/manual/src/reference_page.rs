//! Page of the book that lists all commands with their options, `docs/reference/commands.md`.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Arg, Command};
use flameholder::cli::{CommandPage, GROUPS, command_line};

use crate::GeneratedFile;

const PAGE: &str = "docs/reference/commands.md";
const BEGINNING: &str = "\
# Commands

<!-- written by `cargo xtask man` -->

The same as `flameholder help COMMAND`, and as the manual pages `flameholder-COMMAND(8)`. Options of all commands are listed
[at the end](#all-commands).
";

/// Generate the page.
pub(crate) fn page() -> Result<GeneratedFile> {
    let mut root = command_line();
    root.build();
    let mut parts = vec![BEGINNING.to_owned()];
    for group in &GROUPS {
        parts.push(format!("\n## {}\n", group.heading));
        for page in group.pages {
            let command =
                root.find_subcommand(page.name).with_context(|| format!("the command {}", page.name))?;
            parts.push(section(command, page));
        }
    }
    parts.push(format!("\n## All commands\n\n{}", options(root.get_arguments())));
    Ok(GeneratedFile { path: PathBuf::from(PAGE), text: parts.concat() })
}

fn section(command: &Command, page: &CommandPage) -> String {
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let own = options(command.get_arguments().filter(|argument| !argument.is_global_set()));
    let codes: Vec<String> = page
        .exit_status()
        .into_iter()
        .map(|(code, meaning)| format!("| {code} | {} |\n", cell(meaning)))
        .collect();
    let examples: Vec<String> =
        page.examples.iter().map(|(line, effect)| format!("| `{line}` | {} |\n", cell(effect))).collect();
    format!(
        "\n### `flameholder {}`\n\n{}.\n\n{own}\n| exit code | meaning |\n|--:|---|\n{}\n| example | effect |\n|---|---|\n{}",
        page.name,
        about.trim_end_matches('.'),
        codes.concat(),
        examples.concat(),
    )
}

fn options<'c>(arguments: impl Iterator<Item = &'c Arg>) -> String {
    let shown = arguments.filter(|argument| !argument.is_hide_set() && argument.get_id() != "help");
    let rows: Vec<String> = shown.map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    format!("| option | effect |\n|---|---|\n{}", rows.concat())
}

fn row(argument: &Arg) -> String {
    let mut names: Vec<String> = Vec::new();
    names.extend(argument.get_short().map(|short| format!("-{short}")));
    names.extend(argument.get_long().map(|long| format!("--{long}")));
    let values: Vec<String> =
        argument.get_value_names().unwrap_or_default().iter().map(|name| format!("<{name}>")).collect();
    let takes_value = argument.get_action().takes_values();
    let value = if takes_value { values.join(" ") } else { String::new() };
    let option = [names.join(", "), value].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut more = Vec::new();
    let possible: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|value| takes_value && !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if !possible.is_empty() && possible.len() < 9 {
        more.push(possible.join(", "));
    }
    let defaults: Vec<String> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    if takes_value && !defaults.is_empty() {
        more.push(format!("default `{}`", defaults.join(" ")));
    }
    more.extend(argument.get_env().map(|variable| format!("variable `{}`", variable.to_string_lossy())));
    let more = if more.is_empty() { String::new() } else { format!(" ({})", more.join("; ")) };
    format!("| `{}` | {}{more} |\n", option.join(" ").replace('|', "\\|"), cell(&help))
}

/// Text in a cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|").replace('<', "\\<")
}
