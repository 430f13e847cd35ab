/** drygrad in VS Code: starts the server, and gives its dry runs commands, a status item and a result panel. */

import * as vscode from "vscode";
import { registerCommands } from "./commands";
import { registerRulePages } from "./explain";
import { registerForecastCommands } from "./forecast/commands";
import { ForecastPanel } from "./forecast/panel";
import { InlineMessages } from "./inline";
import { log } from "./log";
import { ResultPanel } from "./panel/panel";
import { STATUS, Status } from "./protocol";
import { Environments } from "./python/environments";
import { Server } from "./server";
import { StatusItem } from "./status";

/** What the tests may look at. */
export interface Api {
    server: Server;
    environments: Environments;
    statusItem: StatusItem;
    panel: ResultPanel;
    forecasts: ForecastPanel;
    inline: InlineMessages;
    lastStatus(): Status | null;
}

export async function activate(context: vscode.ExtensionContext): Promise<Api> {
    const environments = new Environments();
    const server = new Server(context, environments);
    const status = new StatusItem();
    const panel = new ResultPanel(context, server);
    const forecasts = new ForecastPanel(context, server);
    const inline = new InlineMessages();
    let last: Status | null = null;
    context.subscriptions.push(log, environments, server, status, panel, forecasts, inline);
    registerCommands(context, server, panel);
    registerForecastCommands(context, server, forecasts);
    registerRulePages(context, server);
    server.onState((state) => status.serverIs(state));
    server.onStarted((client) =>
        client.onNotification(STATUS, (news: Status) => {
            last = news;
            status.update(news);
            panel.statusChanged(news);
            forecasts.statusChanged(news);
        }),
    );
    followChanges(context, server, environments);
    await server.restart();
    return { server, environments, statusItem: status, panel, forecasts, inline, lastStatus: () => last };
}

function followChanges(context: vscode.ExtensionContext, server: Server, environments: Environments): void {
    const changed = (): void => void server.settingsChanged();
    context.subscriptions.push(
        environments.changed(changed),
        log.onDidChangeLogLevel(changed),
        vscode.workspace.onDidGrantWorkspaceTrust(changed),
        vscode.workspace.onDidChangeConfiguration((event) => event.affectsConfiguration("drygrad") && changed()),
    );
}
