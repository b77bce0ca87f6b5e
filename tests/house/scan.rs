//! Enough of Rust's lexical structure to count lines and find imports.

/// Function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub name: String,
    /// Line of its `fn`, counted from 1.
    pub line: usize,
    /// Number of lines from its `fn` to its closing brace.
    pub lines: usize,
}

/// Name that is reached from the crate's root.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    pub name: String,
    pub line: usize,
}

/// Return `source` with comments and literals blanked; line numbers are kept.
pub(crate) fn code_only(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(next) = rest.chars().next() {
        let blank = comment_length(rest).or_else(|| literal_length(rest));
        let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let length = blank.unwrap_or(word.max(next.len_utf8()));
        let (token, tail) = rest.split_at(length);
        if blank.is_some() {
            code.extend(token.chars().map(|c| if c == '\n' { c } else { ' ' }));
        } else {
            code.push_str(token);
        }
        rest = tail;
    }
    code
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn comment_length(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if !rest.starts_with("/*") {
        return None;
    }
    let mut depth = 0_usize;
    for (at, _) in rest.char_indices() {
        let tail = rest.get(at..).unwrap_or_default();
        let before = rest.get(..at).unwrap_or_default();
        if tail.starts_with("/*") {
            depth += 1;
        } else if at > 2 && before.ends_with("*/") {
            depth -= 1;
        }
        if depth == 0 {
            return Some(at);
        }
    }
    Some(rest.len())
}

fn literal_length(rest: &str) -> Option<usize> {
    let prefix = rest.find(|c| !is_word(c))?;
    let (prefix, body) = rest.split_at(prefix);
    let length = match prefix {
        "r" | "br" | "cr" => raw_string_length(body),
        "" | "b" | "c" if body.starts_with('"') => escaped_length(body, '"'),
        "" | "b" if body.starts_with('\'') => character_length(body),
        _ => None,
    }?;
    Some(prefix.len() + length)
}

fn raw_string_length(body: &str) -> Option<usize> {
    let hashes = body.find(|c| c != '#')?;
    let (hashes, quoted) = body.split_at(hashes);
    let content = quoted.strip_prefix('"')?;
    let end = format!("\"{hashes}");
    let length = content.find(&end).unwrap_or(content.len());
    Some(hashes.len() + 1 + length + end.len())
}

/// Length of the quoted literal that `body` starts with, both quotes included.
fn escaped_length(body: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in body.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Length of a character literal; `None` for a lifetime, which has no second quote.
fn character_length(body: &str) -> Option<usize> {
    let mut characters = body.chars().skip(1);
    match (characters.next()?, characters.next()?) {
        ('\\', _) => escaped_length(body, '\''),
        (c, '\'') => Some(2 + c.len_utf8()),
        _ => None,
    }
}

/// Byte offset behind each occurrence of `word` as a whole word in `code`.
fn ends_of<'c>(code: &'c str, word: &'c str) -> impl Iterator<Item = usize> + 'c {
    code.match_indices(word).filter_map(move |(at, _)| {
        let (before, rest) = code.split_at(at);
        let after = rest.strip_prefix(word)?;
        (!before.ends_with(is_word) && !after.starts_with(is_word)).then_some(at + word.len())
    })
}

/// True if `word` occurs in `code` as a whole word.
pub(crate) fn has_word(code: &str, word: &str) -> bool {
    ends_of(code, word).next().is_some()
}

/// Names that follow `word`, such as the modules that `mod` declares.
pub(crate) fn names_after<'c>(code: &'c str, word: &'c str) -> impl Iterator<Item = &'c str> {
    ends_of(code, word).map(|end| leading_word(code.split_at(end).1))
}

fn leading_word(text: &str) -> &str {
    let text = text.trim_start();
    text.split(|c| !is_word(c)).next().unwrap_or_default()
}

/// The line of a byte offset, from 1.
pub(crate) fn line_of(code: &str, offset: usize) -> usize {
    code.split_at(offset).0.matches('\n').count() + 1
}

/// Functions in `code`, including nested ones.
pub(crate) fn functions(code: &str) -> Vec<Function> {
    let functions = ends_of(code, "fn").filter_map(|end| {
        let rest = code.split_at(end).1;
        let name = leading_word(rest);
        let lines = body_end(rest).filter(|_| !name.is_empty())?;
        Some(Function {
            name: name.to_owned(),
            line: line_of(code, end),
            lines: rest.split_at(lines).0.matches('\n').count() + 1,
        })
    });
    functions.collect()
}

/// Offset of the brace that closes the body; `None` if a semicolon ends the declaration.
fn body_end(rest: &str) -> Option<usize> {
    let (mut brackets, mut braces) = (0_usize, 0_usize);
    for (at, c) in rest.char_indices() {
        match c {
            '(' | '[' if braces == 0 => brackets += 1,
            ')' | ']' if braces == 0 => brackets = brackets.checked_sub(1)?,
            ';' if braces == 0 && brackets == 0 => return None,
            '{' if brackets == 0 => braces += 1,
            '}' if brackets == 0 => {
                braces = braces.checked_sub(1)?;
                if braces == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// Names that a module `depth` levels below the root named `root` reaches there, through `root::` or
/// `super::`.
pub(crate) fn reaches(code: &str, root: &str, depth: usize) -> Vec<Reach> {
    let by_name = ends_of(code, root).filter_map(|end| {
        let path = code.split_at(end).1.strip_prefix("::")?;
        Some((end, path))
    });
    let by_super = ends_of(code, "super").filter_map(|end| {
        let (before, mut path) = code.split_at(end);
        if before.trim_end_matches("super").ends_with("::") {
            return None; // counted at the first `super` of the chain
        }
        let mut levels = 1;
        while let Some(further) = path.strip_prefix("::super") {
            levels += 1;
            path = further;
        }
        Some((end, path.strip_prefix("::").filter(|_| levels >= depth)?))
    });
    let paths = by_name.chain(by_super);
    let named = |(at, path)| {
        let line = line_of(code, at);
        first_names(path).into_iter().map(move |name: &str| Reach { name: name.to_owned(), line })
    };
    paths.flat_map(named).collect()
}

/// First segment of a path, or of each path in a group.
pub(crate) fn first_names(path: &str) -> Vec<&str> {
    let Some(group) = path.trim_start().strip_prefix('{') else {
        return vec![leading_word(path)];
    };
    let mut names = vec![leading_word(group)];
    let mut depth = 1_usize;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => names.push(leading_word(group.split_at(at + 1).1)),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_in_place() {
        let cases = [
            ("a // b { \n c", "a        \n c"),
            ("a /* b /* c */ d */ e", "a                   e"),
            ("a /**/ b", "a      b"),
            (r#"x("{\"}")y"#, "x(      )y"),
            (r##"f(r#"}"{"#, 'b')"##, "f(         ,    )"),
            ("'{' b'}' '\\'' '\\u{7b}'", "                   "),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("r#type bar", "r#type bar"),
            ("let c = 'ä'; }", "let c =    ; }"),
        ];
        for (source, expected) in cases {
            let code = code_only(source);
            let visible = |text: &str| text.split_whitespace().collect::<String>();
            assert_eq!(visible(&code), visible(expected), "{source}");
            assert_eq!(code.matches('\n').count(), source.matches('\n').count());
        }
    }

    #[test]
    fn functions_are_measured_to_their_closing_brace() {
        let code = "trait T { fn a(&self); }\npub fn b(x: [u8; 2]) -> u8\nwhere u8: Copy,\n{\n  if x {}\n  fn c() {}\n}\ntype F = fn(u8);";
        let found: Vec<_> = functions(code).into_iter().map(|f| (f.name, f.line, f.lines)).collect();
        assert_eq!(found, [("b".to_owned(), 2, 6), ("c".to_owned(), 6, 1)]);
    }

    #[test]
    fn imports_from_the_root_are_found_in_every_spelling() {
        let names = |code: &str, depth| {
            let reached = reaches(code, "crate", depth).into_iter();
            reached.map(|r| r.name).collect::<Vec<_>>()
        };
        assert_eq!(names("use crate::core::plan::Plan;", 1), ["core"]);
        assert_eq!(names("let x = crate::os::open();", 1), ["os"]);
        assert_eq!(names("use crate::{core::{a, b}, host,\n cli::Verb};", 1), ["core", "host", "cli"]);
        assert_eq!(names("use super::super::cli::Verb;", 2), ["cli"]);
        assert_eq!(names("use super::cli;", 2), Vec::<String>::new());
        assert_eq!(names("use mycrate::cli;", 1), Vec::<String>::new());
    }
}
