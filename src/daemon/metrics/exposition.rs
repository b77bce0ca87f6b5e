//! Text formats of the metrics, chosen by the client's `Accept` header: OpenMetrics, or the classic format of
//! Prometheus for clients that do not name the other.

use http::HeaderMap;
use http::header::ACCEPT;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

/// Suffix of the samples of a counter, which its family has in the classic format only.
const COUNTER_SUFFIX: &str = "_total";

/// Text format of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::daemon) enum TextFormat {
    OpenMetrics,
    Classic,
}

impl TextFormat {
    /// Choose the format that the client prefers; the classic one where both are equal to it.
    pub(in crate::daemon) fn negotiate(headers: &HeaderMap) -> Self {
        let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let ranges: Vec<(&str, f32)> =
            accepted.flat_map(|value| value.split(',')).filter_map(media_range).collect();
        // The most specific range counts.
        let quality = |names: [&str; 3]| {
            let of = |name: &str| {
                let qualities = ranges.iter().filter(|range| range.0.eq_ignore_ascii_case(name));
                qualities.map(|range| range.1).reduce(f32::max)
            };
            names.iter().find_map(|name| of(name)).unwrap_or_default()
        };
        let open = quality(["application/openmetrics-text", "application/*", "*/*"]);
        let classic = quality(["text/plain", "text/*", "*/*"]);
        if open > classic { Self::OpenMetrics } else { Self::Classic }
    }

    /// `Content-Type` of a response.
    pub(in crate::daemon) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    pub(super) fn encode(self, registry: &Registry) -> String {
        let mut text = String::new();
        encode(&mut text, registry).expect("writing into a string does not fail");
        match self {
            Self::OpenMetrics => text,
            Self::Classic => classic(&text),
        }
    }
}

/// Media type of one element of an `Accept` header, and its quality; `None` for versions that are not served.
fn media_range(element: &str) -> Option<(&str, f32)> {
    let mut parts = element.split(';').map(str::trim);
    let name = parts.next()?;
    let mut quality = 1.0;
    for part in parts {
        match part.split_once('=') {
            Some(("q", value)) => quality = value.parse().ok()?,
            Some(("version", "0.0.1" | "0.0.4" | "1.0.0")) | None => {}
            Some(("version", _)) => return None,
            Some(_) => {}
        }
    }
    Some((name, quality))
}

/// Convert OpenMetrics to the classic format: there a counter's family is named as its samples, and no mark ends
/// the text.
fn classic(open: &str) -> String {
    let mut text = String::with_capacity(open.len());
    let mut lines = open.lines().peekable();
    while let Some(line) = lines.next() {
        let family = |keyword: &str, line: &str| {
            line.strip_prefix(keyword).and_then(|rest| rest.split(' ').next()).map(str::to_owned)
        };
        let counter = |line: &str| family("# TYPE ", line).filter(|_| line.ends_with(" counter"));
        let name = match (family("# HELP ", line), lines.peek()) {
            // The type follows the help.
            (Some(_), Some(next)) => counter(next),
            _ => counter(line),
        };
        match name {
            _ if line == "# EOF" => continue,
            Some(name) => text.push_str(&line.replacen(&name, &format!("{name}{COUNTER_SUFFIX}"), 1)),
            None => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::gauge::Gauge;

    use super::*;

    fn negotiated(accept: &[&str]) -> TextFormat {
        let mut headers = HeaderMap::new();
        for value in accept {
            headers.append(ACCEPT, value.parse().unwrap());
        }
        TextFormat::negotiate(&headers)
    }

    #[test]
    fn format_is_the_one_that_the_client_prefers() {
        // Prometheus 2.42.
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;\
                          version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let open: [&[&str]; 3] = [
            &[prometheus],
            &["text/plain;q=0.5", "application/openmetrics-text; version=1.0.0; charset=utf-8"],
            &["Application/OpenMetrics-Text, text/plain;q=0"],
        ];
        for accept in open {
            assert_eq!(negotiated(accept), TextFormat::OpenMetrics, "{accept:?}");
        }
        let classic: [&[&str]; 6] = [
            &[],
            &["*/*"],
            &["text/html, */*;q=0.8"],
            &["application/openmetrics-text;version=9.0.0,text/plain;q=0.1"],
            &["application/openmetrics-text;q=0.2,text/plain;q=0.5"],
            &["application/openmetrics-text;q=nonsense"],
        ];
        for accept in classic {
            assert_eq!(negotiated(accept), TextFormat::Classic, "{accept:?}");
        }
    }

    #[test]
    fn classic_format_names_a_counters_family_as_its_samples() {
        let mut registry = Registry::default();
        let counter = Counter::<u64>::default();
        registry.register("failures", "Number of failures", counter.clone());
        registry.register("size", "Size of failures", Gauge::<i64>::default());
        counter.inc();
        let text = TextFormat::Classic.encode(&registry);
        assert_eq!(
            text,
            "# HELP failures_total Number of failures.\n# TYPE failures_total counter\nfailures_total 1\n\
             # HELP size Size of failures.\n# TYPE size gauge\nsize 0\n"
        );
        let text = TextFormat::OpenMetrics.encode(&registry);
        assert!(text.starts_with("# HELP failures Number") && text.ends_with("# EOF\n"), "{text}");
    }
}
