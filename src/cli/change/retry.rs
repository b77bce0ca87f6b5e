//! `flameholder retry`

use std::path::Path;

use crate::cli::output::terminal::print_text;
use crate::cli::{CliError, Verdict};
use crate::host::Root;
use crate::host::fs::lock::HostLock;
use crate::transaction::state::blocked;

pub(crate) fn run() -> Result<Verdict, CliError> {
    let root = Root::open(Path::new("/"))?;
    let _lock = HostLock::take(&root)?;
    // What cannot be read is released as well.
    let text = match blocked::load(&root) {
        Ok(None) => "nothing is held\n".to_owned(),
        Ok(Some(held)) => format!("{} is not held any more; apply it again\n", held.config),
        Err(error) => format!("what was held cannot be read, and is released: {error}\n"),
    };
    blocked::release(&root)?;
    print_text(&text)?;
    Ok(Verdict::Fine)
}
