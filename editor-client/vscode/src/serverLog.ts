/** What the server says in the log. The settings and the channel's own level ask for more of it, each by itself. */

import * as vscode from "vscode";
import { log } from "./log";

const { Trace, Debug } = vscode.LogLevel;

/** Return how much the server is to say: what the setting wants, or more if the channel shows more. */
export function serverLevel(wanted: unknown): unknown {
    return shows(Debug) ? "debug" : wanted;
}

const shows = (level: vscode.LogLevel): boolean => log.logLevel !== vscode.LogLevel.Off && log.logLevel <= level;

const traces = (): boolean => vscode.workspace.getConfiguration("drygrad").get("trace.server") !== "off";

/** The channel as the language client uses it: what it would hide, though a setting wants it, is an info there. */
export class ServerLog implements vscode.LogOutputChannel, vscode.Disposable {
    private readonly levels = new vscode.EventEmitter<vscode.LogLevel>();
    private readonly listeners = [
        log.onDidChangeLogLevel(() => this.levels.fire(this.logLevel)),
        vscode.workspace.onDidChangeConfiguration(
            (event) => event.affectsConfiguration("drygrad.trace") && this.levels.fire(this.logLevel),
        ),
    ];
    readonly name = log.name;
    readonly onDidChangeLogLevel = this.levels.event;

    /** At Trace the client tells what is said between it and the server. */
    get logLevel(): vscode.LogLevel {
        return traces() ? Trace : log.logLevel;
    }

    trace(message: string): void {
        (shows(Trace) ? log.trace : log.info)(message);
    }

    debug(message: string): void {
        (shows(Debug) ? log.debug : log.info)(message);
    }

    info(message: string): void {
        log.info(message);
    }

    warn(message: string): void {
        log.warn(message);
    }

    error(message: string | Error): void {
        log.error(message);
    }

    append(value: string): void {
        log.append(value);
    }

    appendLine(value: string): void {
        log.appendLine(value);
    }

    replace(value: string): void {
        log.replace(value);
    }

    clear(): void {
        log.clear();
    }

    show(): void {
        log.show(true);
    }

    hide(): void {
        log.hide();
    }

    dispose(): void {
        this.levels.dispose();
        this.listeners.forEach((listener) => listener.dispose());
    }
}
