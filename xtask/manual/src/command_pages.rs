//! Pages of the commands, in section 8: of those that operators call, and one for all that systemd calls.

use std::path::Path;

use anyhow::{Context, Result};
use clap::{Arg, Command};
use clap_mangen::Man;
use flameholder::cli::{CommandPage, GROUPS, command_line};
use roff::Roff;

use crate::GeneratedFile;
use crate::introduction::introduce;
use crate::page::{file, heading, item, see_also, verbatim, version};

const SECTION: &str = "8";

/// Variables that all commands obey.
const ENVIRONMENT: [(&str, &str); 3] = [
    ("NO_COLOR, CLICOLOR_FORCE, TERM", "Colours of texts, where `--color` is not given."),
    ("LC_ALL, LC_CTYPE, LANG", "Texts are written in ASCII where the locale has no UTF-8."),
    (
        "FLAMEHOLDER_LOCK_TIMEOUT",
        "Seconds to wait for another program that changes the OS; 0 waits not at all.",
    ),
];

/// Files that commands read and write.
const FILES: [(&str, &str); 8] = [
    ("/etc/flameholder/config.d/*.toml", "Settings; see flameholder.toml(5)."),
    ("/etc/flameholder/daemon.env", "Environment of the daemon, which starts if this file exists."),
    ("/etc/flameholder/health.d, /usr/lib/flameholder/health.d", "Programs that the boot check runs."),
    (
        "/etc/flameholder/before-drain.d, after-confirmation.d, notify.d",
        "Hooks around an update, and programs that are told what the daemon does; also in /usr/lib/flameholder.",
    ),
    ("/etc/flameholder/generation", "Record of the generation of a deployment."),
    (
        "/var/lib/flameholder",
        "State that all deployments share: journal of a change, pending generation, history.",
    ),
    ("/run/flameholder", "Reports of the daemon and of the boot check."),
    (
        "/run/machine-config-daemon-force",
        "While it exists, the desired config is applied over drift and over a block.",
    ),
];

/// Generate all pages.
pub(crate) fn all(repository: &Path) -> Result<Vec<GeneratedFile>> {
    let mut root = command_line();
    root.build();
    let mut files = vec![overview(&root, repository)?];
    for page in GROUPS.iter().flat_map(|group| group.pages) {
        let command =
            root.find_subcommand(page.name).with_context(|| format!("the command {}", page.name))?;
        files.push(command_page(command, page)?);
    }
    Ok(files)
}

fn command_page(command: &Command, page: &CommandPage) -> Result<GeneratedFile> {
    let name = format!("flameholder-{}", page.name);
    let mut text = begin(command, &name)?;
    let mut more = Roff::new();
    heading(&mut more, "EXIT STATUS");
    for (code, meaning) in page.exit_status() {
        item(&mut more, &code.to_string(), meaning);
    }
    environment_and_files(&mut more, command);
    heading(&mut more, "EXAMPLES");
    for (line, effect) in page.examples {
        item(&mut more, effect, "");
        verbatim(&mut more, line);
    }
    see_also(&mut more, &[("flameholder", SECTION), ("flameholder.toml", "5"), ("flameholder-phases", "7")]);
    text.push_str(&more.to_roff());
    Ok(file(&name, SECTION, text))
}

/// Render the help of a command.
fn begin(command: &Command, name: &str) -> Result<String> {
    let man = Man::new(command.clone())
        .title(name)
        .section(SECTION)
        .date("")
        .source(version())
        .manual("Flameholder");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    String::from_utf8(text).context("a page in UTF-8")
}

/// The page that lists all commands.
fn overview(root: &Command, repository: &Path) -> Result<GeneratedFile> {
    let mut text = begin(root, "flameholder")?;
    let mut more = Roff::new();
    let about = |name: &str| -> String {
        let command = root.find_subcommand(name);
        command.and_then(Command::get_about).map(ToString::to_string).unwrap_or_default()
    };
    introduce(&mut more, repository)?;
    heading(&mut more, "COMMANDS");
    for group in &GROUPS {
        more.control("SS", [group.heading]);
        for page in group.pages {
            item(&mut more, &format!("flameholder-{}({SECTION})", page.name), &about(page.name));
        }
    }
    heading(&mut more, "COMMANDS OF SYSTEMD");
    for command in root.get_subcommands().filter(|command| command.is_hide_set()) {
        item(&mut more, &format!("flameholder {}", command.get_name()), &about(command.get_name()));
    }
    environment_and_files(&mut more, root);
    see_also(
        &mut more,
        &[
            ("flameholder.toml", "5"),
            ("flameholder-phases", "7"),
            ("ostree", "1"),
            ("rpm-ostree", "1"),
            ("bootc", "8"),
        ],
    );
    text.push_str(&more.to_roff());
    Ok(file("flameholder", SECTION, text))
}

fn environment_and_files(page: &mut Roff, command: &Command) {
    heading(page, "ENVIRONMENT");
    for argument in command.get_arguments() {
        if let Some(variable) = argument.get_env().and_then(|variable| variable.to_str()) {
            item(page, variable, &format!("See `{}`.", option(argument)));
        }
    }
    for (variable, meaning) in ENVIRONMENT {
        item(page, variable, meaning);
    }
    heading(page, "FILES");
    for (path, meaning) in FILES {
        item(page, path, meaning);
    }
}

fn option(argument: &Arg) -> String {
    argument.get_long().map_or_else(|| argument.get_id().to_string(), |long| format!("--{long}"))
}
