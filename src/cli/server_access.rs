//! Options of access to an HTTPS server, for commands that are given a URL.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::cli::CliError;
use crate::core::config::settings::server_access::{PublicKeyPin, ServerAccess};
use crate::core::config::settings::server_url::ServerUrl;
use crate::core::values::refusal::RefusalList;
use crate::host::Root;
use crate::https;
use crate::https::{DocumentAnswer, DocumentRequest, DocumentVersion};
use crate::transaction::state::settings;

/// Wait for requests to servers; `purpose` says why.
pub(crate) fn block_on<T>(
    requests: impl Future<Output = T>,
    purpose: impl Fn() -> String,
) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|source| CliError::Input { file: purpose(), source })?;
    Ok(runtime.block_on(requests))
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ServerAccessArgs {
    /// Check the server of a URL with the CAs of this file (PEM), instead of those of the system
    #[arg(long, value_name = "FILE", env = "FLAMEHOLDER_SERVER_CA")]
    server_ca: Option<PathBuf>,
    /// Also demand that the server has this public key, spelled `sha256//BASE64`; may be repeated
    #[arg(long, value_name = "PIN", env = "FLAMEHOLDER_SERVER_PINS", value_delimiter = ',')]
    server_pin: Vec<PublicKeyPin>,
    /// Identify to the server with this certificate (PEM)
    #[arg(long, value_name = "FILE", env = "FLAMEHOLDER_CLIENT_CERTIFICATE")]
    client_certificate: Option<PathBuf>,
    /// Private key of that certificate (PEM), readable by its owner only
    #[arg(long, value_name = "FILE", env = "FLAMEHOLDER_CLIENT_KEY")]
    client_key: Option<PathBuf>,
    /// Send the server the bearer token in this file, which is read for each request; with the source `kube`, identify with it
    /// in place of the user of --kubeconfig
    #[arg(long, value_name = "FILE", env = "FLAMEHOLDER_TOKEN_FILE")]
    token_file: Option<PathBuf>,
}

impl ServerAccessArgs {
    /// Return the options that give another command the same access.
    pub(crate) fn as_options(&self) -> impl Iterator<Item = String> {
        let files = [
            ("--server-ca", &self.server_ca),
            ("--client-certificate", &self.client_certificate),
            ("--client-key", &self.client_key),
            ("--token-file", &self.token_file),
        ];
        let files = files
            .into_iter()
            .filter_map(|(option, file)| Some((option, file.as_ref()?.display().to_string())));
        let pins = self.server_pin.iter().map(|pin| ("--server-pin", pin.to_string()));
        files.chain(pins).flat_map(|(option, value)| [option.to_owned(), value])
    }

    /// Take options that are not given from the settings.
    pub(crate) fn or(&self, settings: ServerAccess) -> ServerAccess {
        let given = ServerAccess {
            ca: self.server_ca.clone(),
            pins: self.server_pin.clone(),
            client_certificate: self.client_certificate.clone(),
            client_key: self.client_key.clone(),
            token_file: self.token_file.clone(),
        };
        given.or(settings)
    }

    /// Fetch the document at this address. Settings that cannot be used end the command: without them the server might be
    /// trusted that they do not trust.
    pub(crate) fn fetch(&self, url: &ServerUrl) -> Result<Vec<u8>, CliError> {
        let settings = settings::settings(&Root::open(Path::new("/"))?)?;
        let access = self.or(settings.source.access);
        let request = DocumentRequest { url: url.clone(), access, limit: DocumentRequest::LIMIT };
        match block_on(https::fetch(&request, &DocumentVersion::default()), || url.to_string())?? {
            DocumentAnswer::Document { bytes, .. } => Ok(bytes),
            DocumentAnswer::Unchanged => {
                let source = RefusalList::one("", "the server sent no document");
                Err(CliError::Refused { file: url.to_string(), source })
            }
        }
    }
}
