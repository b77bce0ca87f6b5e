//! Running other programs, and rendering their command lines as a reader types them.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Run `command` with the input and output of this process.
///
/// # Errors
/// The program cannot be started or fails.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    let status = command.status().with_context(|| format!("starting `{shown}`"))?;
    ensure!(status.success(), "`{shown}` ended with {status}");
    Ok(())
}

/// Run `command` and return its standard output; its standard error goes to that of this process.
///
/// # Errors
/// The program cannot be started or fails, or its output is not UTF-8.
pub fn read(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .with_context(|| format!("starting `{shown}`"))?;
    ensure!(output.status.success(), "`{shown}` ended with {}", output.status);
    String::from_utf8(output.stdout).with_context(|| format!("reading the output of `{shown}`"))
}

/// Render the command line for a shell: the program by its file name, arguments quoted if necessary.
pub fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program());
    std::iter::once(name).chain(command.get_args()).map(quoted).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &OsStr) -> Cow<'_, str> {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+.,:/@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word;
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_quoted_where_necessary() {
        let mut command = Command::new("/opt/build/flameholder");
        command.args(["plan", "--desired", "my config.yaml", "", "it's"]);
        assert_eq!(shown(&command), r"flameholder plan --desired 'my config.yaml' '' 'it'\''s'");
    }

    #[test]
    fn error_of_a_failing_program_names_it() {
        let error = run(&mut Command::new("false")).unwrap_err();
        assert!(error.to_string().starts_with("`false` ended with"));
    }
}
