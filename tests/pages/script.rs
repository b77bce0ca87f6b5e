//! A page as trycmd runs it, and what it then shows.

use book::{BookPage, CodeBlock, CommandPlace};

/// Program that runs one command.
pub(crate) const RUN: &str = "run";

/// Blocks whose commands run in the folder.
pub(crate) fn blocks(page: &BookPage) -> Vec<CodeBlock> {
    let blocks = page.blocks().into_iter();
    blocks.filter(|block| block.place() == Some(CommandPlace::Folder)).collect()
}

/// The page's commands and their output, each command as one word of [`RUN`], on the lines of the page.
pub(crate) fn script(page: &BookPage) -> String {
    let mut script = String::new();
    for block in blocks(page) {
        let missing = block.line - 1 - script.matches('\n').count();
        script.push_str(&"\n".repeat(missing));
        script.push_str("```console\n");
        for line in &block.lines {
            match line.strip_prefix("$ ") {
                Some(command) => {
                    let quoted = shlex::try_quote(command).expect("a line of a page has no NUL");
                    script.push_str(&format!("$ {RUN} {quoted}\n"));
                }
                None => script.push_str(&format!("{line}\n")),
            }
        }
        script.push_str("```\n");
    }
    script
}

/// The page with what its commands print now: `script` after trycmd wrote into it.
pub(crate) fn blessed(page: &BookPage, script: &str) -> BookPage {
    let printed = BookPage::new(&page.path, script).blocks();
    let number = blocks(page).len();
    assert_eq!(printed.len(), number, "{} has other blocks after its run", page.path.display());
    let mut blessed = page.clone();
    for (index, printed) in printed.iter().enumerate() {
        // The blocks move with the text before them.
        let block = &blocks(&blessed)[index];
        let mut commands = block.lines.iter().filter(|line| line.starts_with("$ "));
        let lines: Vec<String> = printed
            .lines
            .iter()
            .map(|line| {
                let is_command = line.starts_with(&format!("$ {RUN} "));
                if is_command { commands.next().expect("a command for each that ran") } else { line }.clone()
            })
            .collect();
        blessed = blessed.with_block(block, &lines);
    }
    blessed
}
