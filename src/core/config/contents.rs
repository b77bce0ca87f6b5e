//! Contents of an Ignition file: RFC 2397 data URL, then `gzip`, within a limit on the decompressed size.

use std::io::Read;

use data_url::DataUrl;
use flate2::bufread::MultiGzDecoder;

use crate::core::values::limits;

/// The reason why the contents of a file cannot be decoded from the config alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContentsError {
    /// A URL of another scheme than `data:` that is not fetched: its content may be another one tomorrow, and so the plan.
    #[error(
        "contents from `{scheme}:` are not fetched; embed them as a data URL, or, in an Ignition or Butane config, give an http(s) URL and its `verification.hash`"
    )]
    Remote {
        /// The URL's scheme, cut to 16 characters.
        scheme: String,
    },
    #[error("the data URL is malformed: {0}")]
    Malformed(&'static str),
    /// A compression that Ignition does not define.
    #[error("the compression `{0}` is unknown; `gzip` is accepted")]
    Compression(String),
    /// Not a gzip stream, or a truncated one.
    #[error("the contents are not valid gzip")]
    Gzip,
    /// The limit on the contents of all files together is exceeded.
    #[error("the contents of all files together exceed {} bytes", limits::INFLATED_BYTES)]
    TooLarge,
}

/// Decodes the contents of one config after another file and counts their total size.
#[derive(Debug)]
pub struct ContentsDecoder {
    left: usize,
}

impl Default for ContentsDecoder {
    fn default() -> Self {
        Self { left: limits::INFLATED_BYTES }
    }
}

impl ContentsDecoder {
    /// Decode `source`; an absent or empty source gives no bytes.
    pub fn decode(
        &mut self,
        source: Option<&str>,
        compression: Option<&str>,
    ) -> Result<Vec<u8>, ContentsError> {
        let plain = match source {
            None | Some("") => Vec::new(),
            Some(url) => parse_data_url(url)?,
        };
        let bytes = match compression {
            None | Some("") => plain,
            Some("gzip") if plain.is_empty() && source.unwrap_or_default().is_empty() => plain,
            Some("gzip") => inflate(&plain, self.left)?,
            Some(other) => return Err(ContentsError::Compression(other.to_owned())),
        };
        self.left = self.left.checked_sub(bytes.len()).ok_or(ContentsError::TooLarge)?;
        Ok(bytes)
    }
}

/// Decompress contents, to one byte more than `limit` if they are longer: that tells them from contents at the limit.
pub(crate) fn inflate(compressed: &[u8], limit: usize) -> Result<Vec<u8>, ContentsError> {
    let (mut bytes, bound) = (Vec::new(), limit as u64 + 1);
    MultiGzDecoder::new(compressed).take(bound).read_to_end(&mut bytes).map_err(|_| ContentsError::Gzip)?;
    Ok(bytes)
}

/// Decode a data URL as MCD's Go library does: stricter than the WHATWG rules about percent signs, and with
/// `#` as part of the body.
fn parse_data_url(url: &str) -> Result<Vec<u8>, ContentsError> {
    let Some((scheme, rest)) = url.split_once(':') else {
        return Err(ContentsError::Malformed("it has no scheme"));
    };
    if !scheme.eq_ignore_ascii_case("data") {
        return Err(ContentsError::Remote { scheme: scheme.chars().take(16).collect() });
    }
    let Some((header, body)) = rest.split_once(',') else {
        return Err(ContentsError::Malformed("it has no comma before the data"));
    };
    if !body.is_ascii() {
        return Err(ContentsError::Malformed("it has a character that is not ASCII"));
    }
    ensure_escapes(body)?;
    let escaped: String;
    let base64 = header.trim_end().to_ascii_lowercase().ends_with(";base64");
    let body = if !base64 && body.contains(['#', '\t', '\n', '\r', ' ']) {
        escaped = body
            .replace('#', "%23")
            .replace('\t', "%09")
            .replace('\n', "%0A")
            .replace('\r', "%0D")
            .replace(' ', "%20");
        &escaped
    } else {
        body
    };
    let url = format!("data:{header},{body}");
    let parsed = DataUrl::process(&url).map_err(|_| ContentsError::Malformed("it is not a data URL"))?;
    match parsed.decode_to_vec() {
        Ok((bytes, None)) => Ok(bytes),
        Ok((_, Some(_))) => Err(ContentsError::Malformed("its base64 has a `#`")),
        Err(_) => Err(ContentsError::Malformed("its base64 is invalid")),
    }
}

fn ensure_escapes(body: &str) -> Result<(), ContentsError> {
    let mut bytes = body.bytes();
    while let Some(byte) = bytes.next() {
        let hex = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_hexdigit());
        if byte == b'%' && !(hex(bytes.next()) && hex(bytes.next())) {
            return Err(ContentsError::Malformed("a `%` is not followed by two hex digits"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn gzip(bytes: &[u8]) -> String {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        let bytes = encoder.finish().unwrap();
        let escaped: Vec<String> = bytes.iter().map(|byte| format!("%{byte:02x}")).collect();
        format!("data:,{}", escaped.concat())
    }

    #[test]
    fn data_urls_of_rendered_configs_are_decoded() {
        for (source, expected) in [
            ("data:,a%0Ab", "a\nb"),
            ("data:,a#b c\nd", "a#b c\nd"),
            ("data:;base64,aGk=", "hi"),
            ("data:text/plain;charset=utf-8;base64,aGk=", "hi"),
            ("data:,", ""),
            ("", ""),
        ] {
            let bytes = ContentsDecoder::default().decode(Some(source), None).unwrap();
            assert_eq!(bytes, expected.as_bytes(), "{source}");
        }
        let bytes = ContentsDecoder::default().decode(Some(&gzip(b"hello")), Some("gzip"));
        assert_eq!(bytes.unwrap(), b"hello");
    }

    #[test]
    fn remote_malformed_and_unknown_sources_are_refused() {
        for (source, compression) in [
            ("https://example.com/x", None),
            ("data:nocomma", None),
            ("data:,100%", None),
            ("data:,%zz", None),
            ("data:;base64,a#b", None),
            ("data:;base64,%%%", None),
            ("data:,x", Some("xz")),
            ("data:,notgzip", Some("gzip")),
        ] {
            assert!(ContentsDecoder::default().decode(Some(source), compression).is_err(), "{source}");
        }
    }

    #[test]
    fn gzip_bomb_is_refused_at_the_size_limit() {
        let bomb = gzip(&vec![0; limits::INFLATED_BYTES + 1]);
        let error = ContentsDecoder::default().decode(Some(&bomb), Some("gzip"));
        assert_eq!(error, Err(ContentsError::TooLarge));
    }
}
