//! Starts the `drygrad` that is on PATH.

use zed_extension_api::{self as zed, settings::LspSettings, LanguageServerId, Result, Worktree};

struct Drygrad;

impl zed::Extension for Drygrad {
    fn new() -> Self {
        Drygrad
    }

    fn language_server_command(&mut self, _: &LanguageServerId, worktree: &Worktree) -> Result<zed::Command> {
        let command = worktree
            .which("drygrad")
            .ok_or("drygrad is not on PATH: install it with `pip install drygrad`")?;
        Ok(zed::Command { command, args: vec!["server".into()], env: worktree.shell_env() })
    }

    fn language_server_initialization_options(
        &mut self,
        id: &LanguageServerId,
        worktree: &Worktree,
    ) -> Result<Option<zed::serde_json::Value>> {
        Ok(LspSettings::for_worktree(id.as_ref(), worktree)?.initialization_options)
    }
}

zed::register_extension!(Drygrad);
