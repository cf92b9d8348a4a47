//! The packages of all engines, which are downloaded while the program is compiled: one waits for the network, the
//! other for processors.

use catalog::{Catalog, InstallEvent, InstallObserver, Settings};

/// Installs what `photofinish engines install` would, but for the workers.
pub(crate) fn install() -> Result<(), String> {
    let settings = Settings::from_environment().map_err(|error| error.to_string())?;
    let catalog = Catalog::load(&settings).map_err(|error| error.to_string())?;
    let installed = catalog.install(&catalog.names(), &mut Lines);
    installed.map_err(|error| error.to_string())
}

/// Says what is installed.
struct Lines;

impl InstallObserver for Lines {
    fn event(&mut self, event: InstallEvent) {
        match event {
            InstallEvent::Installed { engine, .. } => println!("{engine}: installed"),
            InstallEvent::Broken { engine, what } => println!("{engine}: broken, {what}"),
            InstallEvent::Waiting { engine, holder } => println!("{engine}: waits for {holder}"),
            _ => {}
        }
    }

    fn interrupted(&self) -> bool {
        false
    }
}
