//! Parser of a boot entry's `options` line.

use flameholder::core::values::kernel_arguments::KernelArguments;

/// Return the kernel arguments without `ostree=`, which libostree adds.
pub(crate) fn without_ostree(options: &str) -> KernelArguments {
    let mut arguments = KernelArguments::parse(options);
    arguments.retain(|argument| !argument.as_str().starts_with("ostree="));
    arguments
}

#[cfg(test)]
mod tests {
    use flameholder::core::values::kernel_arguments::KernelArgument;

    use super::*;

    #[test]
    fn order_duplicates_and_quotes_are_kept() {
        let line = r#"rw dyndbg="file a +p" console=a ostree=/ostree/boot.1/x/y/0 console=a"#;
        let kept = ["rw", r#"dyndbg="file a +p""#, "console=a", "console=a"];
        assert_eq!(without_ostree(line).iter().map(KernelArgument::as_str).collect::<Vec<_>>(), kept);
    }
}
