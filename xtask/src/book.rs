//! `cargo xtask book`: the documentation as a book, made by mdBook.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use book::{BookContents, BookPage};
use clap::Args;

use crate::consent::InstallConsent;
use crate::packages::listing;
use crate::project_tree::ProjectTree;
use crate::{folder, invocation};

/// Release of mdBook that makes the book; its builds with other releases can differ.
const MDBOOK: &str = "0.5.4";

/// Options of `cargo xtask book`.
#[derive(Debug, Args)]
pub struct BookArgs {
    /// Write the book into this directory, which is emptied first, instead of one below the target directory.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Make the book in the directory that the arguments name.
///
/// # Errors
/// mdBook cannot be installed, or a page or link is at fault.
pub fn run(tree: &ProjectTree, consent: InstallConsent, args: &BookArgs) -> Result<()> {
    let below_target = || tree.target().join("book/html");
    let output = args.output.clone().unwrap_or_else(below_target);
    build(tree, consent, &output)?;
    println!("{}", output.join("index.html").display());
    Ok(())
}

/// Make the book below the target directory, and check its links.
///
/// # Errors
/// mdBook cannot be installed, or a page or link is at fault.
pub fn check(tree: &ProjectTree, consent: InstallConsent) -> Result<()> {
    build(tree, consent, &tree.target().join("book/html"))
}

fn build(tree: &ProjectTree, consent: InstallConsent, output: &Path) -> Result<()> {
    let mdbook = install(tree, consent)?;
    let output = std::path::absolute(output).with_context(|| format!("naming {}", output.display()))?;
    let folder = tree.target().join("book");
    let source = folder.join("source");
    folder::remove(&source)?;
    let contents = BookContents::load(tree.root())?;
    contents.collect(&source)?;
    let settings = folder.join("book.toml");
    fs::write(&settings, settings_for(&output)).with_context(|| format!("writing {}", settings.display()))?;
    invocation::run(Command::new(mdbook).arg("build").arg(&folder))?;
    ensure_links(&contents, &output)
}

/// Settings of mdBook. Without its usual preprocessors a README keeps its name, so that links to it hold.
fn settings_for(output: &Path) -> String {
    format!(
        "[book]\ntitle = \"Flameholder\"\nlanguage = \"en\"\nsrc = \"source\"\n\
         [build]\nbuild-dir = '{}'\ncreate-missing = false\nuse-default-preprocessors = false\n\
         [output.html]\nno-section-label = true\n",
        output.display()
    )
}

/// Return the path of mdBook, and install it after consent if it is missing.
fn install(tree: &ProjectTree, consent: InstallConsent) -> Result<PathBuf> {
    let root = tree.target().join("tools");
    let program = root.join("bin/mdbook");
    let version = Command::new(&program).arg("--version").output();
    if version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(MDBOOK)) {
        return Ok(program);
    }
    let mut install = tree.cargo(&["install", "--locked", "--debug", "--version", MDBOOK, "--root"]);
    install.arg(&root).args(["--no-default-features", "--features", "search", "mdbook"]);
    install.env("CARGO_PROFILE_DEV_DEBUG", "none");
    consent
        .ensure(&listing(std::slice::from_ref(&install), ""))
        .with_context(|| format!("mdBook {MDBOOK} is not installed"))?;
    invocation::run(&mut install)?;
    Ok(program)
}

/// Check that each link between pages leads to a file of the book.
fn ensure_links(contents: &BookContents, output: &Path) -> Result<()> {
    for page in contents.pages()? {
        let rendered = output.join(&page.path).with_extension("html");
        ensure!(rendered.is_file(), "the book has no {}", rendered.display());
        for target in targets(&page) {
            let file = rendered.with_file_name("").join(&target);
            ensure!(file.is_file(), "{}: the book has no {}", page.path.display(), file.display());
        }
    }
    Ok(())
}

/// Files of the book that the page links to, relative to it.
fn targets(page: &BookPage) -> Vec<PathBuf> {
    let files = page.links().into_iter().filter_map(|link| link.file().map(PathBuf::from));
    let rendered = files.map(|file| match file.extension() {
        Some(ending) if ending == "md" => file.with_extension("html"),
        _ => file,
    });
    rendered.collect()
}
