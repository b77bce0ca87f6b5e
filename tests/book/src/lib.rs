//! The pages of the documentation: those that the book's table of contents lists, and the README.
//!
//! A page shows commands in blocks of the language `console`, each on a line that begins with `$ `, and what they print. The
//! words after it say where the commands run:
//!
//! | block | its commands |
//! |---|---|
//! | `console` | run in a folder with a tree, a sysroot, an image and the files of the page; what they print is compared |
//! | `console,host` | run on a booted host, in a virtual machine |
//! | `console,ignore` | do not run; a comment above the block, `<!-- not run: … -->`, gives the reason |
//!
//! A block with `file=NAME` behind its language is a file of the page.

mod block;
mod contents;
mod page;

pub use block::{CodeBlock, CommandPlace, ShownCommand};
pub use contents::{BookContents, beside};
pub use page::{BookPage, PageLink};
