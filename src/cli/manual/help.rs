//! `--help`: commands in groups, and examples and exit codes of each.

use std::fmt::Write as _;
use std::process::ExitCode;

use anstyle::Style;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::command_list::GROUPS;
use super::command_page::CommandPage;

/// Name of the command that prints the help of others.
pub(crate) const HELP: &str = "help";
const ALL: &str = "all";
const OF: &str = "command";
/// The parts of a page in order. Options come last: each command has some.
const TEMPLATE: &str =
    "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}Options:\n{options}{after-help}";
/// End of the list of commands.
const MORE: &str = "Start with `flameholder plan --desired FILE`, which changes nothing. `flameholder help COMMAND` has examples and exit \
    codes, flameholder(8) the terms; `help --all` lists what systemd calls.";
/// Style of a heading.
const HEADING: Style = Style::new().bold().underline();

/// Add the groups of commands, and the pages of each, to a parser.
pub(crate) fn with_help(command: Command) -> Command {
    let groups = groups(&command);
    let pages = GROUPS.iter().flat_map(|group| group.pages);
    let with_pages = pages.fold(command, |command, page| {
        command.mut_subcommand(page.name, |command| command.after_long_help(after_options(page)))
    });
    let help = Command::new(HELP)
        .about("Print the help of a command; with --all, also of those that systemd calls")
        .arg(
            Arg::new(ALL)
                .long(ALL)
                .action(ArgAction::SetTrue)
                .help("List also the commands that systemd calls"),
        )
        .arg(Arg::new(OF).value_name("COMMAND").help("Print the help of this command"));
    let command = with_pages.disable_help_subcommand(true).help_template(TEMPLATE).before_help(groups);
    command.after_help(MORE).subcommand(help)
}

/// Print what `help` was asked for: exit code 64 (`EX_USAGE`) for a command that does not exist.
pub(crate) fn print(mut command: Command, asked: &ArgMatches) -> ExitCode {
    // Gives subcommands their full names.
    command.build();
    // A closed terminal leaves no place to report a failure to.
    let Some(name) = asked.get_one::<String>(OF) else {
        if asked.get_flag(ALL) {
            let internal = command.get_subcommands().filter(|command| command.is_hide_set());
            let internal = section("Run by systemd, by the daemon or in a pod", internal.map(line));
            command = command.after_help(internal);
        }
        let _ = command.print_help();
        return ExitCode::SUCCESS;
    };
    if let Some(found) = command.find_subcommand_mut(name) {
        let _ = found.print_long_help();
        return ExitCode::SUCCESS;
    }
    let reason = format!("there is no command `{name}`; `flameholder help --all` lists all");
    let _ = command.error(ErrorKind::InvalidSubcommand, reason).print();
    ExitCode::from(64)
}

fn groups(command: &Command) -> String {
    let sections = GROUPS.iter().map(|group| {
        let named = group.pages.iter().filter_map(|page| command.find_subcommand(page.name));
        section(group.heading, named.map(line)) + "\n"
    });
    sections.collect()
}

fn line(command: &Command) -> (String, String) {
    (command.get_name().to_owned(), command.get_about().map(ToString::to_string).unwrap_or_default())
}

/// Format lines below a heading, the second parts in a column.
fn section(heading: &str, lines: impl Iterator<Item = (String, String)>) -> String {
    let lines: Vec<_> = lines.collect();
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let mut text = format!("{HEADING}{heading}:{HEADING:#}\n");
    for (name, about) in &lines {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {name:<width$}  {about}");
    }
    text
}

fn after_options(page: &CommandPage) -> String {
    let mut text = format!("{HEADING}Examples:{HEADING:#}\n");
    for (command, purpose) in page.examples {
        let _ = writeln!(text, "  {command}\n      {purpose}");
    }
    let codes = page.exit_status().into_iter().map(|(code, meaning)| (code.to_string(), meaning.to_owned()));
    text + "\n" + &section("Exit status", codes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn each_command_that_is_not_hidden_has_a_page_in_one_group() {
        let command = Cli::command();
        let shown: BTreeSet<&str> = command
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
            .map(Command::get_name)
            .collect();
        let listed: Vec<&str> = GROUPS.iter().flat_map(|group| group.pages).map(|page| page.name).collect();
        assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), shown);
        assert_eq!(listed.len(), shown.len());
    }

    #[test]
    fn each_example_is_a_valid_command_line() {
        for page in GROUPS.iter().flat_map(|group| group.pages) {
            assert!(!page.examples.is_empty(), "{}", page.name);
            for (example, _) in page.examples {
                let words = example.split(" > ").next().unwrap_or_default().split_whitespace();
                if words.clone().next() == Some("systemctl") {
                    continue;
                }
                assert_eq!(words.clone().nth(1), Some(page.name), "{example}");
                assert!(Cli::try_parse_from(words).is_ok(), "{example}");
            }
        }
    }
}
