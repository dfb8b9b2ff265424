"""The scripts of a page that compute, run by Node.js."""
# SPDX-License-Identifier: Apache-2.0
import json
import shutil
import subprocess
import tempfile

NODE = shutil.which("node") or shutil.which("nodejs")
# One script of the page, given a list of settings, prints a list of what it makes of them.
RUN = """const fs = require('fs'), vm = require('vm');
const [page, asked, ask] = process.argv.slice(1);
const script = /<script id="engine">([^]*?)<\\/script>/.exec(fs.readFileSync(page, 'utf8'))[1];
const context = vm.createContext({});
vm.runInContext(script, context);
const of = vm.runInContext(ask, context);
const answers = JSON.parse(fs.readFileSync(asked, 'utf8')).map(q => {
  try { return of(q); } catch (error) { return {refused: error.message}; }
});
console.log(JSON.stringify(answers));"""


def answers(page, asked, ask):
    """What the function `ask` of the page's engine says of each thing asked, or why it refuses."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(asked, file)
        file.flush()
        done = subprocess.run([NODE, "-e", RUN, page, file.name, ask], check=True,
                              capture_output=True, text=True)
    return json.loads(done.stdout)
