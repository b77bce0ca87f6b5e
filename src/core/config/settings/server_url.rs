//! Address of a document on an HTTPS server, and of contents on any web server.

use std::fmt;
use std::str::FromStr;

use http::Uri;
use http::uri::PathAndQuery;
use serde::Deserialize;

/// Port of HTTPS.
const PORT: u16 = 443;
/// Port of HTTP.
const PLAIN_PORT: u16 = 80;

/// Address of a document on an HTTPS server, such as `https://api-int.example.com:22623/config/worker`.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ServerUrl {
    text: String,
    /// Host name, or address without brackets.
    host: String,
    /// Host and port as the text has them.
    authority: String,
    port: u16,
    /// Path, and the query if one is allowed.
    path: String,
    /// False for `http:`.
    is_protected: bool,
}

/// Unusable address. No message quotes it: a password could be in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("expected a URL such as https://HOST:22623/config/worker")]
    Malformed,
    #[error(
        "only https:// is supported: the answer decides over the whole host, and http:// is not protected"
    )]
    Unprotected,
    #[error(
        "a user name or password in the URL is not supported: it would show in the list of processes; use a token file or a client certificate"
    )]
    UserInfo,
    #[error("a URL with `?` or `#` is not supported: name the document by its path")]
    Query,
    #[error("a URL with `#` is not supported: a server is not told what follows it")]
    Fragment,
    #[error("it leads from https:// to http://, which does not protect the request")]
    Downgraded,
}

/// Return true if the text is meant as a URL.
#[must_use]
pub fn is_url(text: &str) -> bool {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    matches!(scheme.as_deref(), Some("https" | "http"))
}

impl ServerUrl {
    /// Host name, or address without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Host and port for the header `Host`.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// True if the server is to be asked by TLS.
    #[must_use]
    pub fn is_protected(&self) -> bool {
        self.is_protected
    }

    /// Absolute path of the document on the server; of contents, with the query.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Last element of the path, such as the name of a pool; `None` without one.
    #[must_use]
    pub fn last_element(&self) -> Option<&str> {
        self.path.rsplit('/').next().filter(|element| !element.is_empty())
    }

    /// Parse the address of contents whose hash is known, so that `http:` serves as well. A query can be a signature, with which
    /// others could fetch the contents: no text shows it.
    pub fn of_contents(text: &str) -> Result<Self, UrlError> {
        if text.contains('#') {
            return Err(UrlError::Fragment);
        }
        let (text, query) = text.split_once('?').map_or((text, None), |(text, query)| (text, Some(query)));
        let mut url = Self::parsed(text)?;
        if let Some(query) = query {
            url.path = format!("{}?{query}", url.path)
                .parse::<PathAndQuery>()
                .map_err(|_| UrlError::Malformed)?
                .to_string();
        }
        Ok(url)
    }

    /// Parse the address of an update graph, whose query says what it is about. It decides which image hosts get.
    pub fn of_graph(text: &str) -> Result<Self, UrlError> {
        let url = Self::of_contents(text)?;
        if url.is_protected { Ok(url) } else { Err(UrlError::Unprotected) }
    }

    /// Return the address of contents to which a `Location` header leads. The way from `https:` to `http:` is refused.
    pub fn redirected_contents(&self, location: &str) -> Result<Self, UrlError> {
        let scheme = if self.is_protected { "https" } else { "http" };
        let is_path = location.starts_with('/') && !location.starts_with("//");
        let whole =
            if is_path { format!("{scheme}://{}{location}", self.authority) } else { location.to_owned() };
        let next = Self::of_contents(&whole)?;
        if self.is_protected && !next.is_protected { Err(UrlError::Downgraded) } else { Ok(next) }
    }

    /// Return the address that the value of a `Location` header names: a URL, or a path of this server.
    pub fn redirected(&self, location: &str) -> Result<Self, UrlError> {
        if location.starts_with('/') && !location.starts_with("//") {
            return format!("https://{}{location}", self.authority).parse();
        }
        location.parse()
    }

    /// Return the address of a `path` below this one.
    #[must_use]
    pub fn below(&self, path: &str) -> Self {
        let parent = self.path.trim_end_matches('/');
        let path = format!("{parent}/{path}");
        Self { text: format!("https://{}{path}", self.authority), path, ..self.clone() }
    }

    /// Return true if both addresses are of one server.
    #[must_use]
    pub fn is_same_server(&self, other: &Self) -> bool {
        self.host.eq_ignore_ascii_case(&other.host) && self.port == other.port
    }
}

impl FromStr for ServerUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.contains(['?', '#']) {
            return Err(UrlError::Query);
        }
        let url = Self::parsed(text)?;
        if url.is_protected { Ok(url) } else { Err(UrlError::Unprotected) }
    }
}

impl ServerUrl {
    /// Parse an address without a query.
    fn parsed(text: &str) -> Result<Self, UrlError> {
        let uri: Uri = text.parse().map_err(|_| UrlError::Malformed)?;
        let is_protected = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(UrlError::Malformed),
        };
        let authority =
            uri.authority().filter(|found| !found.host().is_empty()).ok_or(UrlError::Malformed)?;
        if authority.as_str().contains('@') {
            return Err(UrlError::UserInfo);
        }
        let default_port = if is_protected { PORT } else { PLAIN_PORT };
        let is_numbered = authority.as_str() != authority.host();
        let port = if is_numbered { authority.port_u16().ok_or(UrlError::Malformed)? } else { default_port };
        Ok(Self {
            text: text.to_owned(),
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            authority: authority.as_str().to_owned(),
            port,
            path: uri.path().to_owned(),
            is_protected,
        })
    }
}

impl TryFrom<String> for ServerUrl {
    type Error = UrlError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Shows no query.
impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> ServerUrl {
        text.parse().unwrap()
    }

    #[test]
    fn parts_of_an_address_are_told_apart() {
        for (text, host, port, path, last) in [
            (
                "https://api-int.example.com:22623/config/worker",
                "api-int.example.com",
                22623,
                "/config/worker",
                Some("worker"),
            ),
            (
                "https://[2001:db8::1]:22623/config/worker",
                "2001:db8::1",
                22623,
                "/config/worker",
                Some("worker"),
            ),
            ("https://192.0.2.1/desired.json", "192.0.2.1", 443, "/desired.json", Some("desired.json")),
            ("https://[2001:db8::1]", "2001:db8::1", 443, "/", None),
            ("https://host/config/", "host", 443, "/config/", None),
        ] {
            let parsed = url(text);
            assert_eq!(
                (parsed.host(), parsed.port(), parsed.path(), parsed.last_element()),
                (host, port, path, last)
            );
            assert_eq!(parsed.to_string(), text);
        }
    }

    #[test]
    fn unusable_address_is_refused_with_the_way_out_and_without_its_secrets() {
        for (text, mentions) in [
            ("", "expected a URL"),
            ("https://", "expected a URL"),
            ("https:///config", "expected a URL"),
            ("https://host:port/config", "expected a URL"),
            ("https://host:/config", "expected a URL"),
            ("https://host:99999/config", "expected a URL"),
            ("ftp://host/config", "expected a URL"),
            ("https://host/a b", "expected a URL"),
            ("http://host/config", "only https://"),
            ("https://user:very-secret@host/config", "token file"),
            ("https://host/config?token=very-secret", "by its path"),
            ("https://host/config#worker", "by its path"),
        ] {
            let refused = text.parse::<ServerUrl>().unwrap_err().to_string();
            assert!(refused.contains(mentions) && !refused.contains("very-secret"), "{text}: {refused}");
        }
    }

    #[test]
    fn query_of_contents_is_sent_and_shown_nowhere() {
        let contents = ServerUrl::of_contents;
        let signed = contents("https://host/tool?signature=very-secret&a=%2F").unwrap();
        assert_eq!(
            (signed.to_string().as_str(), signed.path()),
            ("https://host/tool", "/tool?signature=very-secret&a=%2F")
        );
        let plain = contents("http://host").unwrap();
        assert_eq!((plain.port(), plain.path(), plain.is_protected()), (80, "/", false));
        assert_eq!(plain.redirected_contents("/a?b").unwrap().path(), "/a?b");
        let elsewhere = signed.redirected_contents("https://other/x?token=1").unwrap();
        assert_eq!((elsewhere.host(), elsewhere.path()), ("other", "/x?token=1"));
        assert_eq!(signed.redirected_contents("http://other/x"), Err(UrlError::Downgraded));
        assert_eq!(contents("https://host/a b?c"), Err(UrlError::Malformed));
        assert_eq!(contents("https://host/a?b c"), Err(UrlError::Malformed));
        assert_eq!(contents("https://host/a#b"), Err(UrlError::Fragment));
        assert_eq!(contents("https://me:very-secret@host/a"), Err(UrlError::UserInfo));
    }

    #[test]
    fn redirection_leads_to_a_path_of_the_server_or_to_another_address() {
        let from = url("https://host:22623/config");
        let at = |location: &str| from.redirected(location);
        assert_eq!(at("/config/").map(|url| url.to_string()).as_deref(), Ok("https://host:22623/config/"));
        assert!(at("https://HOST:22623/x").unwrap().is_same_server(&from));
        for other in ["https://host/x", "https://other:22623/x"] {
            assert!(!at(other).unwrap().is_same_server(&from), "{other}");
        }
        for (base, expected) in [
            ("https://host:8443", "https://host:8443/v1/x"),
            ("https://host/", "https://host/v1/x"),
            ("https://host/lock/", "https://host/lock/v1/x"),
        ] {
            let below = url(base).below("v1/x");
            assert_eq!((below.to_string().as_str(), below), (expected, url(expected)));
        }
        assert_eq!(at("http://host:22623/x"), Err(UrlError::Unprotected));
        assert_eq!(at("//other/x"), Err(UrlError::Malformed));
    }
}
