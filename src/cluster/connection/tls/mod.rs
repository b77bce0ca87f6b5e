//! TLS to the API server: by rustls, or by the host's OpenSSL, which FIPS hosts need.

#[cfg(not(feature = "rustls"))]
mod openssl;
#[cfg(feature = "rustls")]
mod rustls;

#[cfg(not(feature = "rustls"))]
pub(super) use self::openssl::{MaybeTlsStream, protect, protect_proxy};
#[cfg(feature = "rustls")]
pub(super) use self::rustls::{MaybeTlsStream, protect, protect_proxy};
