//! How one request reaches a server.
//!
//! `object_store` handles addresses, credentials and signatures. Responses are handled here, the
//! same for every kind of server. So each request carries a [`Ticket`]: the connector below puts
//! the response on it, before `object_store` sees it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, IF_MATCH, RANGE, USER_AGENT};
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, Uri};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::client::{
    ClientConfigKey, HttpClient, HttpConnector, HttpError, HttpRequest, HttpRequestBody, HttpResponse,
    HttpService, ReqwestConnector,
};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::path::Path;
use object_store::{ClientOptions, GetOptions, GetRange, ObjectStore, ObjectStoreScheme, RetryConfig};
use url::Url;

use super::failure::{Failure, chain};
use super::options::RemoteOptions;
use super::origin;
use super::parsed::parsed;
use super::redirect::{self, REDIRECTS_MAX};
use crate::extent::ByteRange;
use crate::report::json::base64;
use crate::source::Origin;
use crate::source::address::percent_decoded;

const AGENT: &str = concat!("stook/", env!("CARGO_PKG_VERSION"));

/// The way to one object.
pub(super) enum Transport {
    /// A web server.
    Plain(Box<Plain>),
    /// An object store, which signs.
    Store {
        store: Box<dyn ObjectStore>,
        path: Path,
        /// What to do if the metadata service of the machine provides no credentials; `None` if
        /// there are others.
        advice: Option<&'static str>,
    },
}

/// An object on a web server, and what every request says.
pub(super) struct Plain {
    client: HttpClient,
    url: Url,
    /// Headers that any server gets.
    headers: HeaderMap,
    /// Headers that are sent only to the server of the address: credentials, and those of the
    /// caller.
    own: HeaderMap,
}

/// An answer.
pub(super) struct ServerAnswer {
    pub(super) response: HttpResponse,
    /// Where it came from, if another address was asked.
    pub(super) target: Option<Origin>,
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain",
            Self::Store { .. } => "Store",
        })
    }
}

impl Transport {
    /// Builds the transport for an address. Nothing is sent yet.
    ///
    /// # Errors
    /// Returns what is wrong with the address or the settings, for people.
    pub(super) fn new(address: &str, options: &RemoteOptions) -> Result<Self, String> {
        // Another one may have been installed by the program; it is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = parsed(address)?;
        match url.scheme() {
            "http" | "https" => plain(url, options),
            _ => store(&url, options),
        }
    }

    pub(super) fn is_store(&self) -> bool {
        matches!(self, Self::Store { .. })
    }

    /// Requests the object, or a range of it, if it still has this ETag.
    pub(super) async fn get(
        &self,
        range: Option<ByteRange>,
        if_match: Option<&str>,
    ) -> Result<ServerAnswer, Failure> {
        match self {
            Self::Plain(plain) => plain.get(range, if_match).await,
            Self::Store { store, path, advice } => {
                let ticket = Ticket::default();
                let mut extensions = Extensions::new();
                extensions.insert(ticket.clone());
                let range = range.map(|range| GetRange::Bounded(range.start()..range.end()));
                let if_match = if_match.map(str::to_owned);
                let options = GetOptions { range, if_match, extensions, ..GetOptions::default() };
                let got = store.get_opts(path, options).await;
                let response = match (ticket.take(), got) {
                    (Some(answer), _) => answer.map_err(|error| Failure::of_transport(&error))?,
                    (None, Err(error)) => return Err(Failure::of_store(&error, *advice)),
                    (None, Ok(_)) => return Err(Failure::protocol("an answer was lost")),
                };
                Ok(ServerAnswer { response, target: None })
            }
        }
    }
}

impl Plain {
    /// Sends the request and follows redirects.
    async fn get(&self, range: Option<ByteRange>, if_match: Option<&str>) -> Result<ServerAnswer, Failure> {
        let (mut url, mut is_home) = (self.url.clone(), true);
        for led in 0..=REDIRECTS_MAX {
            let own = is_home.then_some(&self.own);
            let target = (led > 0).then(|| origin::of_target(&url));
            let failed = |failure: Failure| failure.found_at(target.as_ref());
            let request = self.request(&url, own, range, if_match).map_err(Failure::protocol);
            let answer = self.client.execute(request.map_err(failed)?).await;
            let response = answer.map_err(|error| failed(Failure::of_transport(&error)))?;
            let Some(next) = redirect::next(&response, &url).map_err(failed)? else {
                return Ok(ServerAnswer { response, target });
            };
            // Nor if another server redirects back.
            is_home &= next.origin() == self.url.origin();
            url = next;
        }
        Err(redirect::without_end())
    }

    fn request(
        &self,
        url: &Url,
        own: Option<&HeaderMap>,
        range: Option<ByteRange>,
        if_match: Option<&str>,
    ) -> Result<HttpRequest, String> {
        let mut asked = HttpRequest::new(HttpRequestBody::empty());
        *asked.method_mut() = Method::GET;
        *asked.uri_mut() = uri(url)?;
        let headers = asked.headers_mut();
        *headers = self.headers.clone();
        for (name, value) in own.into_iter().flatten() {
            headers.insert(name, value.clone());
        }
        if let Some(range) = range {
            let value = format!("bytes={}-{}", range.start(), range.end().saturating_sub(1));
            headers.insert(RANGE, HeaderValue::from_str(&value).map_err(|error| error.to_string())?);
        }
        if let Some(etag) = if_match {
            headers.insert(IF_MATCH, HeaderValue::from_str(etag).map_err(|error| error.to_string())?);
        }
        Ok(asked)
    }
}

fn uri(url: &Url) -> Result<Uri, String> {
    url.as_str().parse::<Uri>().map_err(|error| format!("it is no address: {error}"))
}

fn plain(mut url: Url, options: &RemoteOptions) -> Result<Transport, String> {
    url.set_fragment(None);
    let (mut headers, mut own) = (HeaderMap::new(), HeaderMap::new());
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    // Ranges are those of the object, not of something that was compressed on the way.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if !url.username().is_empty() || url.password().is_some() {
        let bad = "its user or password cannot be sent";
        own.insert(AUTHORIZATION, basic(&url).ok_or(bad)?);
        url.set_username("").map_err(|()| bad)?;
        url.set_password(None).map_err(|()| bad)?;
    }
    for (name, value) in &options.headers {
        let bad = |_| format!("the header `{name}` cannot be sent");
        let mut value = HeaderValue::from_str(value).map_err(|error| bad(error.to_string()))?;
        value.set_sensitive(true);
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| bad(error.to_string()))?;
        own.insert(name, value);
    }
    uri(&url)?;
    let client = client(options, url.scheme() == "https")?;
    Ok(Transport::Plain(Box::new(Plain { client, url, headers, own })))
}

/// Like the clients that `object_store` makes, but that it follows no redirects.
fn client(options: &RemoteOptions, is_secure: bool) -> Result<HttpClient, String> {
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(options.stall)
        .http1_only()
        .https_only(is_secure)
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
        .build();
    Ok(HttpClient::new(client.map_err(|error| chain(&error.without_url()))?))
}

/// `Basic` credentials of `https://user:password@host`.
fn basic(url: &Url) -> Option<HeaderValue> {
    let mut both = percent_decoded(url.username())?;
    both.push(b':');
    both.extend(percent_decoded(url.password().unwrap_or_default())?);
    let mut value = HeaderValue::from_str(&format!("Basic {}", base64(&both))).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Applies the environment, what the connection needs, and the caller's settings, in this order.
macro_rules! configured {
    ($builder:expr, $key:ty, $client:path, $prefix:literal, $url:expr, $options:expr) => {{
        let mut builder = $builder.with_url($url.as_str());
        for (key, value) in connection_settings($options) {
            builder = builder.with_config($client(key), value);
        }
        for (name, value) in &$options.settings {
            match name.to_ascii_lowercase().parse::<$key>() {
                Ok(key) => builder = builder.with_config(key, value),
                Err(_) => return Err(format!("there is no setting `{name}` of {}", $prefix)),
            }
        }
        Ok(builder)
    }};
}

pub(super) fn s3(url: &Url, options: &RemoteOptions) -> Result<AmazonS3Builder, String> {
    let from_env = AmazonS3Builder::from_env();
    configured!(from_env, AmazonS3ConfigKey, AmazonS3ConfigKey::Client, "S3", url, options)
}

pub(super) fn google(url: &Url, options: &RemoteOptions) -> Result<GoogleCloudStorageBuilder, String> {
    let from_env = GoogleCloudStorageBuilder::from_env();
    configured!(from_env, GoogleConfigKey, GoogleConfigKey::Client, "Google Cloud Storage", url, options)
}

pub(super) fn azure(url: &Url, options: &RemoteOptions) -> Result<MicrosoftAzureBuilder, String> {
    let from_env = MicrosoftAzureBuilder::from_env();
    configured!(from_env, AzureConfigKey, AzureConfigKey::Client, "Azure", url, options)
}

/// The store that a builder makes.
macro_rules! connected {
    ($builder:expr) => {{
        let retries = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        let built = $builder.with_retry(retries).with_http_connector(Connector).build();
        Box::new(built.map_err(|error| chain(&error))?) as Box<dyn ObjectStore>
    }};
}

fn store(url: &Url, options: &RemoteOptions) -> Result<Transport, String> {
    let (scheme, path) = ObjectStoreScheme::parse(url).map_err(|error| error.to_string())?;
    if path.as_ref().is_empty() {
        return Err("it names no object after the bucket".into());
    }
    let (store, advice) = match scheme {
        ObjectStoreScheme::AmazonS3 => {
            let builder = s3(url, options)?;
            let is_given = GIVEN_TO_S3.iter().any(|key| builder.get_config_value(key).is_some());
            (connected!(builder), (!is_given).then_some(ADVICE_FOR_S3))
        }
        ObjectStoreScheme::GoogleCloudStorage => {
            let builder = google(url, options)?;
            let is_given = GIVEN_TO_GOOGLE.iter().any(|key| builder.get_config_value(key).is_some());
            (connected!(builder), (!is_given).then_some(ADVICE_FOR_GOOGLE))
        }
        ObjectStoreScheme::MicrosoftAzure => {
            let builder = azure(url, options)?;
            let is_given = GIVEN_TO_AZURE.iter().any(|key| builder.get_config_value(key).is_some());
            (connected!(builder), (!is_given).then_some(ADVICE_FOR_AZURE))
        }
        _ => return Err("it is of no object store that is known here".into()),
    };
    Ok(Transport::Store { store, path, advice })
}

/// With any of these the metadata service of the machine is not asked; without, it is, and there
/// may be none.
const GIVEN_TO_S3: [AmazonS3ConfigKey; 5] = [
    AmazonS3ConfigKey::AccessKeyId,
    AmazonS3ConfigKey::SecretAccessKey,
    AmazonS3ConfigKey::WebIdentityTokenFile,
    AmazonS3ConfigKey::ContainerCredentialsRelativeUri,
    AmazonS3ConfigKey::ContainerCredentialsFullUri,
];
const ADVICE_FOR_S3: &str = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, \
                             or, for a public bucket, AWS_SKIP_SIGNATURE=true";
/// The same for Google.
const GIVEN_TO_GOOGLE: [GoogleConfigKey; 4] = [
    GoogleConfigKey::ServiceAccount,
    GoogleConfigKey::ServiceAccountKey,
    GoogleConfigKey::ApplicationCredentials,
    GoogleConfigKey::BearerToken,
];
const ADVICE_FOR_GOOGLE: &str = "set GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_SERVICE_ACCOUNT, \
                                 or, for a public bucket, GOOGLE_SKIP_SIGNATURE=true";
/// The same for Azure.
const GIVEN_TO_AZURE: [AzureConfigKey; 5] = [
    AzureConfigKey::AccessKey,
    AzureConfigKey::SasKey,
    AzureConfigKey::Token,
    AzureConfigKey::ClientSecret,
    AzureConfigKey::FederatedTokenFile,
];
const ADVICE_FOR_AZURE: &str = "set AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, \
                                or, for a public container, AZURE_SKIP_SIGNATURE=true";

/// Deadlines are kept by the requests, over all their tries.
fn connection_settings(options: &RemoteOptions) -> [(ClientConfigKey, String); 3] {
    let milliseconds = |time: std::time::Duration| format!("{}ms", time.as_millis().max(1));
    [
        (ClientConfigKey::Timeout, milliseconds(options.deadline)),
        (ClientConfigKey::ConnectTimeout, milliseconds(options.stall)),
        (ClientConfigKey::UserAgent, AGENT.into()),
    ]
}

/// Where the answer to one request is left.
#[derive(Clone, Default)]
struct Ticket(Arc<Mutex<Option<Result<HttpResponse, HttpError>>>>);

impl Ticket {
    fn put(&self, answer: Result<HttpResponse, HttpError>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
    }

    fn take(&self) -> Option<Result<HttpResponse, HttpError>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Makes clients that leave the answers to requests with a ticket there.
#[derive(Debug)]
struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Ticketed(ReqwestConnector::default().connect(options)?)))
    }
}

#[derive(Debug)]
struct Ticketed(HttpClient);

impl HttpService for Ticketed {
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let Some(ticket) = request.extensions().get::<Ticket>().cloned() else {
                // It is for credentials.
                return self.0.execute(request).await;
            };
            ticket.put(self.0.execute(request).await);
            Ok(HttpResponse::new(Bytes::new().into()))
        })
    }
}
