//! Lines and words of configuration files, split as systemd splits them.

/// White space in systemd's sense.
pub(super) const WHITESPACE: [char; 4] = [' ', '\t', '\n', '\r'];

/// Split a file into lines as systemd does: CR, LF and NUL end a line; different ones in a row end it
/// together, NUL last.
pub(super) fn physical(contents: &str) -> impl Iterator<Item = &str> {
    let mut rest = contents;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (line, mut tail) = rest.split_at(rest.find(is_line_end).unwrap_or(rest.len()));
        let mut ended_by = String::new();
        while let Some(end) = tail.chars().next()
            && is_line_end(end)
            && !ended_by.contains([end, '\0'])
        {
            ended_by.push(end);
            tail = tail.strip_prefix(end).unwrap_or_default();
        }
        rest = tail;
        Some(line)
    })
}

fn is_line_end(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\0')
}

/// Split a value into words: quotes group words and are removed, backslashes are kept.
///
/// After an unbalanced quote, only the words before it are returned.
pub(super) fn quoted_words(value: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in value.chars() {
        match quote {
            Some(open) if character == open => quote = None,
            None if matches!(character, '"' | '\'') => {
                word.get_or_insert_default();
                quote = Some(character);
            }
            None if WHITESPACE.contains(&character) => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    if quote.is_none() {
        words.extend(word);
    }
    words
}

/// Split a value into words: quotes are ordinary, a backslash is removed and makes the next character
/// ordinary.
///
/// `None` if the value ends with a backslash.
pub(super) fn escaped_words(value: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        if character == '\\' {
            word.get_or_insert_default().push(characters.next()?);
        } else if WHITESPACE.contains(&character) {
            words.extend(word.take());
        } else {
            word.get_or_insert_default().push(character);
        }
    }
    words.extend(word);
    Some(words)
}
