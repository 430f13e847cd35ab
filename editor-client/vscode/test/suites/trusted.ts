/** What is tried in a window that the user trusts. */

import { givenPython, set } from "../support";
import "./commands";
import "./log";
import "./settings";
import "./surfaces";
import "./interpreters";
import "./strategy";

before(() => set("interpreter", givenPython("TORCH")));
