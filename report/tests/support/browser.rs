//! Chromium, driven by WebDriver.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use fantoccini::{Client, ClientBuilder, wd::WebDriverCompatibleCommand};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};

const MISSING: &str =
    "the browser tests need Chromium and its driver: `apt-get install chromium chromium-driver`";

/// How a page is looked at.
#[derive(Debug, Clone, Copy)]
pub struct View {
    pub scripts: bool,
    /// Width of a telephone, in CSS pixels; `None`: a window of 1280.
    pub phone: Option<u32>,
    pub dark: bool,
}

/// A wide, light window with scripts.
pub const WIDE: View = View {
    scripts: true,
    phone: None,
    dark: false,
};

/// A browser with a fresh profile. Both end with it.
pub struct Browser {
    pub client: Client,
    driver: Driver,
    _profile: tempfile::TempDir,
}

struct Driver(Child);

impl Drop for Driver {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

impl Browser {
    pub async fn start(view: View) -> Self {
        let (driver, url) = start_driver();
        let profile = tempfile::tempdir().expect("a temporary folder");
        let mut arguments: Vec<String> = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=1280,900",
            "--hide-scrollbars",
        ]
        .map(str::to_owned)
        .to_vec();
        arguments.push(format!("--user-data-dir={}", profile.path().display()));
        arguments.push(format!(
            "--blink-settings=preferredColorScheme={}",
            if view.dark { 0 } else { 1 }
        ));
        let mut options = json!({ "args": arguments });
        if !view.scripts {
            options["prefs"] = json!({ "profile.managed_default_content_settings.javascript": 2 });
        }
        if let Some(width) = view.phone {
            options["mobileEmulation"] = json!({ "deviceMetrics": { "width": width, "height": 740, "pixelRatio": 2.0, "touch": true } });
        }
        let mut capabilities = serde_json::Map::new();
        capabilities.insert("goog:chromeOptions".to_owned(), options);
        capabilities.insert("goog:loggingPrefs".to_owned(), json!({ "browser": "ALL" }));
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities)
            .connect(&url)
            .await
            .unwrap_or_else(|error| panic!("{MISSING} ({error})"));
        Self {
            client,
            driver,
            _profile: profile,
        }
    }

    /// Messages on the console since the last call.
    pub async fn console(&self) -> Vec<String> {
        let entries = self.client.issue_cmd(Log).await.expect("the console");
        entries
            .as_array()
            .into_iter()
            .flatten()
            .map(|entry| entry["message"].to_string())
            .collect()
    }

    pub async fn run(&self, script: &str) -> Value {
        self.client
            .execute(script, Vec::new())
            .await
            .expect("a script that runs")
    }

    /// Waits until an expression is true.
    pub async fn until(&self, expression: &str) {
        for _ in 0..200 {
            if self.run(&format!("return Boolean({expression})")).await == json!(true) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("never came true: {expression}");
    }

    pub async fn close(self) {
        self.client.clone().close().await.expect("an end");
        drop(self.driver);
    }
}

fn start_driver() -> (Driver, String) {
    let mut child = Command::new("chromedriver")
        .arg("--port=0")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("{MISSING} ({error})"));
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    let driver = Driver(child);
    let mut line = String::new();
    let port = loop {
        line.clear();
        assert!(
            output.read_line(&mut line).expect("output") > 0,
            "chromedriver ended without naming its port"
        );
        if let Some((_, port)) = line
            .trim()
            .trim_end_matches('.')
            .split_once("started successfully on port ")
        {
            break port.to_owned();
        }
    };
    // It must be able to go on writing.
    std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    (driver, format!("http://127.0.0.1:{port}"))
}

/// Chromium's own command for the messages on the console.
#[derive(Debug)]
struct Log;

impl WebDriverCompatibleCommand for Log {
    fn endpoint(
        &self,
        base: &url::Url,
        session: Option<&str>,
    ) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/se/log", session.unwrap_or_default()))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        (
            http::Method::POST,
            Some(json!({ "type": "browser" }).to_string()),
        )
    }
}
