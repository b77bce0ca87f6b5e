//! Shell wildcards in preset files: fnmatch(3) with `FNM_NOESCAPE`, in the C locale.

/// True if the pattern matches the whole text. `*` and `?` also match dots and slashes; a backslash is an
/// ordinary character.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    matches_from(&pattern, &text)
}

/// Match without recursion. On a mismatch only the last `*` is extended, so the time is at worst the product
/// of both lengths.
fn matches_from(mut pattern: &[char], mut text: &[char]) -> bool {
    let mut last_star: Option<(&[char], &[char])> = None;
    loop {
        if let Some((tail, rest)) = step(pattern, text) {
            (pattern, text) = (tail, rest);
        } else if let ['*', tail @ ..] = pattern {
            pattern = tail;
            last_star = Some((tail, text));
        } else if pattern.is_empty() && text.is_empty() {
            return true;
        } else if let Some((tail, [_, rest @ ..])) = last_star {
            (pattern, text) = (tail, rest);
            last_star = Some((tail, rest));
        } else {
            return false;
        }
    }
}

/// Match one character against the first element of a pattern that does not begin with `*`.
fn step<'p, 't>(pattern: &'p [char], text: &'t [char]) -> Option<(&'p [char], &'t [char])> {
    let (&character, rest) = text.split_first()?;
    match pattern {
        ['*', ..] | [] => None,
        ['?', tail @ ..] => Some((tail, rest)),
        ['[', set @ ..] => match matches_set(set, character) {
            Some((matched, tail)) => matched.then_some((tail, rest)),
            None => (character == '[').then_some((set, rest)),
        },
        [literal, tail @ ..] => (*literal == character).then_some((tail, rest)),
    }
}

/// Match a character against the set after a `[`; return the result and the pattern after the `]`. `None` if
/// there is no `]`: then the `[` is an ordinary character.
fn matches_set(set: &[char], character: char) -> Option<(bool, &[char])> {
    let (negated, mut set) = match set {
        ['!' | '^', tail @ ..] => (true, tail),
        _ => (false, set),
    };
    let mut matched = false;
    let mut first = true;
    loop {
        if let ['[', ':', name @ ..] = set
            && let Some((class, tail)) = class_name(name)
        {
            matched |= in_class(&class, character);
            set = tail;
        } else {
            set = match set {
                [']', tail @ ..] if !first => return Some((matched != negated, tail)),
                [low, '-', high, tail @ ..] if *high != ']' => {
                    matched |= (*low..=*high).contains(&character);
                    tail
                }
                [member, tail @ ..] => {
                    matched |= *member == character;
                    tail
                }
                [] => return None,
            };
        }
        first = false;
    }
}

fn class_name(set: &[char]) -> Option<(String, &[char])> {
    let length = set.iter().take_while(|character| character.is_ascii_lowercase()).count();
    let (name, tail) = set.split_at_checked(length)?;
    match tail {
        [':', ']', tail @ ..] => Some((name.iter().collect(), tail)),
        _ => None,
    }
}

fn in_class(class: &str, character: char) -> bool {
    match class {
        "alnum" => character.is_ascii_alphanumeric(),
        "alpha" => character.is_ascii_alphabetic(),
        "digit" => character.is_ascii_digit(),
        "lower" => character.is_ascii_lowercase(),
        "upper" => character.is_ascii_uppercase(),
        "punct" => character.is_ascii_punctuation(),
        "xdigit" => character.is_ascii_hexdigit(),
        "graph" | "print" => character.is_ascii_graphic(),
        _ => false,
    }
}
