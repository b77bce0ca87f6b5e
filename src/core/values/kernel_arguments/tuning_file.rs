//! The file `/etc/pivot/kernel-args`, by which older configs set kernel arguments: MCD appends those of its lines `ADD …` that
//! are in its list.

use super::{KernelArgument, KernelArguments};

/// Path of the file.
pub const TUNING_FILE: &str = "/etc/pivot/kernel-args";

/// Arguments that MCD takes from the file on enterprise systems.
const ACCEPTED: [&str; 1] = ["nosmt"];

/// Most characters of a line in a message.
const SHOWN: usize = 64;

/// Append the arguments of the file with these `contents` to `arguments`, and name its other lines in `left_out`.
pub fn append(contents: &[u8], arguments: &mut KernelArguments, left_out: &mut Vec<String>) {
    let text = String::from_utf8_lossy(contents);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let added = line.strip_prefix("ADD ").map(str::trim).filter(|argument| ACCEPTED.contains(argument));
        let added = added.and_then(|argument| KernelArgument::try_from(argument.to_owned()).ok());
        match added {
            Some(argument) if arguments.contains(&argument) => {}
            Some(argument) => arguments.push(argument),
            None => left_out.push(format!(
                "{TUNING_FILE}: `{}` has no effect; list the argument in spec.kernelArguments",
                line.chars().take(SHOWN).collect::<String>()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_argument_is_appended_once_and_other_lines_are_named() {
        let mut left_out = Vec::new();
        let mut arguments = KernelArguments::parse("quiet");
        append(b"# tuning\n\nADD nosmt\nADD  nosmt \n", &mut arguments, &mut left_out);
        assert_eq!((arguments.to_string().as_str(), left_out.len()), ("quiet nosmt", 0));
        append(b"DELETE nosmt\nADD quiet\nnosmt\n\xff", &mut arguments, &mut left_out);
        assert_eq!((arguments.to_string().as_str(), left_out.len()), ("quiet nosmt", 4));
        assert!(left_out[0].starts_with("/etc/pivot/kernel-args: `DELETE nosmt` has no effect"));
    }
}
