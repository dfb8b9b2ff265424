// The folder, its confinement, and the server over it.
// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/serve.hpp"

#include <nlohmann/json.hpp>
#include <system_error>

#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tools/serve/confine.hpp"
#include "tools/serve/http.hpp"
#include "tools/serve/workplace.hpp"

namespace weir {

app::Fields fields(ServeRequest& r) {
  return {{"folder", &r.folder,
           "Folder that is served: no file outside it is read, and none outside its weir-serve "
           "written"},
          {"--port", &r.port, "Port on 127.0.0.1 (0: any that is free)", {.range = {{0, 65535}}}}};
}

ServeResult serve(const ServeRequest& r, const app::Session& /*session*/) {
  std::error_code error;
  std::filesystem::current_path(r.folder, error);
  if (error) throw InputError(r.folder.string(), "", error.message());
  Workplace workplace;
  std::filesystem::create_directory(workplace.folder, error);
  if (error) throw InputError(workplace.folder.string(), "", "cannot be made: " + error.message());
  confine(".", workplace.folder);
  read_files_alone();
  return {serve_http(workplace, r)};
}

nlohmann::ordered_json to_json(const ServeResult& /*result*/) { return nullptr; }

}  // namespace weir
