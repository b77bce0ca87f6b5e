//! flameholder.toml(5): the settings with their defaults, taken from the documentation's examples, which tests compare with
//! the program.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::GeneratedFile;
use crate::page::{begin, file, heading, item, paragraph, see_also, verbatim};

const NAME: &str = "flameholder.toml";
const SECTION: &str = "5";
/// Documents with examples of settings, and the headings that these get here.
const SOURCES: [(&str, &str); 3] = [
    ("docs/usage/configuration.md", "SETTINGS"),
    ("docs/usage/health-checks.md", "BOOT CHECK"),
    ("docs/usage/reboot-policy.md", "REBOOT POLICY"),
];

pub(crate) fn page(repository: &Path) -> Result<GeneratedFile> {
    let mut page = begin(NAME, SECTION, "settings of the flameholder agent");
    heading(&mut page, "SYNOPSIS");
    for directory in ["/etc", "/run", "/usr/lib"] {
        paragraph(&mut page, &format!("`{directory}/flameholder/config.d/*.toml`"));
    }
    heading(&mut page, "DESCRIPTION");
    paragraph(
        &mut page,
        "Settings of the agent, in fragments that are read in the order of their names. A fragment in /etc hides one of the \
        same name in /run, and that hides one in /usr/lib; of a key that several fragments set, the last one counts. An \
        unknown key is an error. A flag of a command comes before its environment variable, and that before the settings. \
        Times are in seconds.",
    );
    for (source, title) in SOURCES {
        let path = repository.join(source);
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let examples = examples(&text);
        ensure!(!examples.is_empty(), "{source} has no example of settings");
        heading(&mut page, title);
        for example in examples {
            verbatim(&mut page, example);
        }
    }
    heading(&mut page, "FILES");
    item(
        &mut page,
        "/etc/flameholder/daemon.env",
        "Environment of the daemon, whose unit starts if this file exists.",
    );
    see_also(&mut page, &[("flameholder", "8"), ("flameholder-daemon", "8"), ("flameholder-verify", "8")]);
    Ok(file(NAME, SECTION, page.to_roff()))
}

/// Return the contents of the TOML blocks of a Markdown text.
fn examples(text: &str) -> Vec<&str> {
    let blocks = text.split("```toml\n").skip(1);
    blocks.filter_map(|block| block.split_once("```")).map(|(example, _)| example).collect()
}
