//! The `options` line of a boot entry.

/// Splits the line at white space outside double quotes, which stay part of their argument, as the kernel reads it
/// (`next_arg` in lib/cmdline.c: no escapes, a quote may stand anywhere, one without its pair reaches to the end).
pub(crate) fn split(options: &str) -> Vec<String> {
    let mut quoted = false;
    options
        .split(|c: char| {
            quoted ^= c == '"';
            !quoted && c.is_ascii_whitespace()
        })
        .filter(|argument| !argument.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The arguments without the one that libostree adds to find the deployment.
pub(crate) fn without_ostree(options: &str) -> Vec<String> {
    let mut arguments = split(options);
    arguments.retain(|argument| !argument.starts_with("ostree="));
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_an_argument_together() {
        for (line, expected) in [
            ("", vec![]),
            ("  a  b=c ", vec!["a", "b=c"]),
            (
                r#"dyndbg="file a +p" ro"#,
                vec![r#"dyndbg="file a +p""#, "ro"],
            ),
            (r#"x "y z" w"#, vec!["x", r#""y z""#, "w"]),
            (r#"a="b c"#, vec![r#"a="b c"#]),
        ] {
            assert_eq!(split(line), expected, "{line}");
        }
    }

    #[test]
    fn order_and_duplicates_are_kept() {
        let line = "console=tty0 ostree=/ostree/boot.1/os/abc/0 ro console=ttyS0 console=tty0";
        assert_eq!(
            without_ostree(line),
            ["console=tty0", "ro", "console=ttyS0", "console=tty0"]
        );
    }
}
