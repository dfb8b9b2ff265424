// Evaluates what can be known of a Python function before it runs.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/python/evaluate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "plan/words/error.hpp"
#include "tools/jobs/python/operators.hpp"

namespace weir {
namespace {

using Expression = PythonExpression;
using Statement = PythonStatement;
using Names = std::map<std::string, PythonValue>;

constexpr int kDeepestCall = 32;
constexpr int kMostSteps = 200'000;
constexpr std::size_t kMostNotes = 100;

class PythonEvaluator;

// What a file and those that it imports from have in common while they are followed.
struct PythonRun {
  const PythonFiles& files;
  Budget budget;
  PythonHeap heap = {};
  std::vector<std::string> not_followed = {};
  int depth = 0, steps = 0;
  int importing = 0;  // names that are being looked for, each by the one before
  // By path; null: there is none, or it is no Python that is understood.
  struct Module {
    PythonFile file;
    std::unique_ptr<PythonEvaluator> evaluator;
  };
  std::map<std::string, std::unique_ptr<Module>> modules = {};
  std::set<std::string> reading = {};  // paths of those that are not read to their end
};

class PythonEvaluator {
 public:
  PythonEvaluator(const PythonFile& file, PythonRun& run, std::string folder = "")
      : file_(file),
        run_(run),
        folder_(std::move(folder)),
        imports_(python_imports(file)),
        heap_(run.heap),
        budget_(run.budget),
        not_followed_(run.not_followed),
        depth_(run.depth),
        steps_(run.steps) {
    const std::size_t before = not_followed_.size();
    for (const Statement& statement : file.statements) {
      if (statement.kind == Statement::Kind::define) functions_[statement.word] = &statement;
    }
    execute(file.statements, globals_, nullptr);
    not_followed_.resize(before);  // of what stands beside the function
  }

  PythonResult call(const std::string& function) {
    const auto found = functions_.find(function);
    if (found == functions_.end())
      throw InputError(file_.name, function, "is no function of this file");
    PythonValue value = call_own(*found->second, {}, {});
    return {std::move(value), std::move(not_followed_), std::move(heap_)};
  }

 private:
  void step() {
    if (++steps_ > kMostSteps) throw InputError(file_.name, "", "is too long to be followed");
  }
  // What is made, or copied from where it is kept.
  PythonValue made(PythonValue value) {
    budget_.elements(weight(value));
    return value;
  }
  void note(int line, const std::string& what) {
    if (not_followed_.size() < kMostNotes)
      not_followed_.push_back(fmt::format("line {}: {}", line, what));
  }

  PythonValue call_own(const Statement& function, const std::vector<PythonValue>& places,
                       const Names& keywords) {
    if (++depth_ > kDeepestCall)
      throw InputError(file_.name, function.word, "calls itself, or too deep to be followed");
    Names locals;
    for (std::size_t p = 0; p < function.parameters.size(); ++p) {
      const Statement::Parameter& parameter = function.parameters[p];
      const auto given = keywords.find(parameter.name);
      if (p < places.size()) {
        locals[parameter.name] = places[p];
      } else if (given != keywords.end()) {
        locals[parameter.name] = given->second;
      } else {
        locals[parameter.name] = parameter.has_default ? evaluate(parameter.value, locals)
                                                       : PythonValue{PythonUnknown{parameter.name}};
      }
    }
    PythonValue returned;
    execute(function.body, locals, &returned);
    --depth_;
    return returned;
  }

  // Whether a return ended it.
  bool execute(const std::vector<Statement>& body, Names& names, PythonValue* returned) {
    return std::ranges::any_of(
        body, [&](const Statement& statement) { return execute(statement, names, returned); });
  }

  bool execute(const Statement& s, Names& names, PythonValue* returned) {
    const Budget::Level level(budget_);
    step();
    switch (s.kind) {
      case Statement::Kind::assign: {
        const PythonValue value = evaluate(s.value, names);
        for (const Expression& target : s.targets) assign(target, value, names);
        return false;
      }
      case Statement::Kind::change: {
        const PythonValue before = evaluate(s.targets.front(), names);
        assign(s.targets.front(),
               python_binary(s.word.substr(0, s.word.size() - 1), before, evaluate(s.value, names)),
               names);
        return false;
      }
      case Statement::Kind::evaluate:
        follow_call(s, names);
        return false;
      case Statement::Kind::give_back:
        if (returned != nullptr && !s.value.source.empty()) *returned = evaluate(s.value, names);
        return true;
      case Statement::Kind::branch:
        return branch(s, names, returned);
      case Statement::Kind::repeat:
        return repeat(s, names);
      case Statement::Kind::block:
        return execute(s.body, names, returned);
      case Statement::Kind::define:
      case Statement::Kind::import:
      case Statement::Kind::other:
        return false;
    }
    return false;
  }

  bool branch(const Statement& s, Names& names, PythonValue* returned) {
    const auto taken = evaluate(s.value, names).truth();
    if (taken) return execute(*taken ? s.body : s.otherwise, names, returned);
    const std::size_t before = forgotten_;
    forget(s.body, names, s.line);
    forget(s.otherwise, names, s.line);
    if (forgotten_ != before) note(s.line, fmt::format("if {}: not known here", s.value.source));
    return false;
  }

  bool repeat(const Statement& s, Names& names) {
    const std::size_t before = forgotten_;
    forget(s.body, names, s.line);
    if (forgotten_ != before) note(s.line, "a loop, or what catches an error: not followed");
    return false;
  }

  // What a body that may or may not run assigns is not known afterwards.
  void forget(const std::vector<Statement>& body, Names& names, int line) {
    for (const Statement& s : body) {
      step();
      for (const Expression& target : s.targets) {
        assign(target, {PythonUnknown{s.value.source}}, names);
        ++forgotten_;
      }
      if (s.kind == Statement::Kind::give_back || s.kind == Statement::Kind::evaluate) ++forgotten_;
      forget(s.body, names, line);
      forget(s.otherwise, names, line);
    }
  }

  // A call as a statement: of the file's own function, or of one that may change what it is given.
  void follow_call(const Statement& s, Names& names) {
    if (s.value.kind != Expression::Kind::call) {
      static_cast<void>(evaluate(s.value, names));
      return;
    }
    const Budget::Level level(budget_);
    step();
    Given given = given_to(s.value, names);
    const auto is_object = [](const PythonValue& value) { return value.object() != nullptr; };
    const bool changes = is_object(given.whose) || std::ranges::any_of(given.places, is_object) ||
                         std::ranges::any_of(given.keywords, [&](const auto& keyword) {
                           return is_object(keyword.second);
                         });
    static_cast<void>(made(call(s.value, std::move(given))));
    const Expression& callee = s.value.parts.front();
    if (callee.kind == Expression::Kind::name && function(callee.word)) return;
    if (changes) note(s.line, fmt::format("{}: not followed", s.value.source));
  }

  void assign(const Expression& target, const PythonValue& value, Names& names) {
    if (target.kind == Expression::Kind::name) {
      names[target.word] = value;
    } else if (target.kind == Expression::Kind::attribute) {
      if (auto object = object_at(target.parts.front(), names)) object->fields[target.word] = value;
    } else if (target.kind == Expression::Kind::subscript) {
      const PythonValue key = evaluate(target.parts[1], names);
      PythonValue* place = place_of(target.parts[0], names);
      auto* dict = place == nullptr ? nullptr : std::get_if<PythonDict>(&place->is);
      if (dict != nullptr && key.text() != nullptr) dict->values[*key.text()] = value;
    } else if (target.kind == Expression::Kind::tuple) {
      const PythonList* values = value.list();
      const PythonObject* made = value.object();
      for (std::size_t i = 0; i < target.parts.size(); ++i) {
        if (made != nullptr) {
          // What a function of another file gives back in several parts: each is the call.
          assign(target.parts[i], object(*made), names);
          continue;
        }
        const bool known = values != nullptr && values->values.size() == target.parts.size();
        assign(target.parts[i],
               known ? values->values[i] : PythonValue{PythonUnknown{target.source}}, names);
      }
    }
  }

  // Where a name or an attribute keeps its value; nullptr for what is neither.
  PythonValue* place_of(const Expression& target, Names& names) {
    if (target.kind == Expression::Kind::name) {
      const auto found = names.find(target.word);
      return found == names.end() ? nullptr : &found->second;
    }
    if (target.kind != Expression::Kind::attribute) return nullptr;
    const auto object = object_at(target.parts.front(), names);
    return object == nullptr ? nullptr : &object->fields[target.word];
  }

  // The object that an expression means; what was not known so far begins as one without fields.
  std::shared_ptr<PythonObject> object_at(const Expression& target, Names& names) {
    PythonValue* place = place_of(target, names);
    if (place == nullptr) return nullptr;
    if (const auto* shared = std::get_if<std::shared_ptr<PythonObject>>(&place->is)) return *shared;
    auto made = heap_.make({});
    if (place->unknown() != nullptr) made->callee = place->unknown()->source;
    place->is = made;
    return made;
  }
  PythonValue object(PythonObject object) {
    std::size_t held = 1;
    for (const PythonValue& place : object.places) held += weight(place);
    for (const auto& [name, field] : object.fields) held += weight(field);
    budget_.elements(held);
    return {heap_.make(std::move(object))};
  }

  // Every value that is made counts with all that it holds, so nothing grows without an end.
  PythonValue evaluate(const Expression& e, Names& names) {
    const Budget::Level level(budget_);
    step();
    return made(value_of(e, names));
  }

  PythonValue value_of(const Expression& e, Names& names) {
    switch (e.kind) {
      case Expression::Kind::none:
        return {};
      case Expression::Kind::truth:
        return {e.word == "True"};
      case Expression::Kind::number:
        return python_number_value(e.word);
      case Expression::Kind::text:
        return {e.word};
      case Expression::Kind::name:
        return named(e, names);
      case Expression::Kind::attribute:
        return attribute(e, names);
      case Expression::Kind::call:
        return call(e, names);
      case Expression::Kind::subscript:
        return element(e, names);
      case Expression::Kind::list:
      case Expression::Kind::tuple: {
        PythonList list;
        for (const Expression& part : e.parts) list.values.push_back(evaluate(part, names));
        return {std::move(list)};
      }
      case Expression::Kind::dict:
        return dictionary(e, names);
      case Expression::Kind::unary:
        return python_unary(e.word, evaluate(e.parts[0], names), e.source);
      case Expression::Kind::binary:
        return binary(e, names);
      case Expression::Kind::conditional: {
        const auto taken = evaluate(e.parts[1], names).truth();
        return taken ? evaluate(e.parts[*taken ? 0 : 2], names)
                     : PythonValue{PythonUnknown{e.source}};
      }
      case Expression::Kind::comprehension:
        return comprehension(e, names);
      case Expression::Kind::other:
        break;
    }
    return {PythonUnknown{e.source}};
  }

  // Its name is its own: what was called so before is again so behind it.
  PythonValue comprehension(const Expression& e, Names& names) {
    const PythonValue over = evaluate(e.parts[1], names);
    if (over.list() == nullptr) return {PythonUnknown{e.source}};
    const auto outer = names.find(e.word);
    const auto before = outer == names.end() ? std::nullopt : std::optional(outer->second);
    PythonList list;
    for (const PythonValue& value : over.list()->values) {
      names.insert_or_assign(e.word, value);
      list.values.push_back(evaluate(e.parts[0], names));
    }
    names.erase(e.word);
    if (before) names.emplace(e.word, *before);
    return {std::move(list)};
  }

  PythonValue named(const Expression& e, const Names& names) {
    if (const auto local = names.find(e.word); local != names.end()) return local->second;
    return global(e.word).value_or(PythonValue{PythonUnknown{e.word}});
  }

  // Of this file, or a checkpoint's name in the one that it was imported from: where a model is
  // looked for is told. What else that file holds may be changed there.
  std::optional<PythonValue> global(const std::string& name) {
    if (const auto own = globals_.find(name); own != globals_.end()) return own->second;
    const auto import = imports_.find(name);
    if (import == imports_.end() || !import->second.only) return std::nullopt;
    auto other = elsewhere(name, &PythonEvaluator::global);
    const std::string* text = other ? other->text() : nullptr;
    return text != nullptr && text->find('/') != text->npos ? other : std::nullopt;
  }

  PythonValue attribute(const Expression& e, Names& names) {
    const PythonValue base = evaluate(e.parts.front(), names);
    if (const PythonValue* field = base.object() != nullptr ? base.field(e.word) : nullptr)
      return *field;
    // A default of a class that another file has, or a name of a module.
    return {PythonUnknown{e.source}};
  }

  PythonValue element(const Expression& e, Names& names) {
    const PythonValue base = evaluate(e.parts[0], names), key = evaluate(e.parts[1], names);
    if (const auto name = python_key(key); base.dict() != nullptr && name) {
      if (const PythonValue* value = base.field(*name)) return *value;
    }
    if (base.list() != nullptr && key.integer()) {
      const auto& values = base.list()->values;
      const auto size = static_cast<std::int64_t>(values.size());
      const std::int64_t i = *key.integer() < 0 ? *key.integer() + size : *key.integer();
      if (i >= 0 && i < size) return values[static_cast<std::size_t>(i)];
    }
    return {PythonUnknown{e.source}};
  }

  PythonValue dictionary(const Expression& e, Names& names) {
    PythonDict dict;
    for (std::size_t i = 0; i + 1 < e.parts.size(); i += 2) {
      const Expression& key = e.parts[i];
      const PythonValue value = evaluate(e.parts[i + 1], names);
      if (key.kind == Expression::Kind::other && key.source.empty()) {  // ** of another
        if (value.dict() == nullptr) return {PythonUnknown{e.source}};
        for (const auto& [name, held] : value.dict()->values) dict.values[name] = held;
        continue;
      }
      const PythonValue name = evaluate(key, names);
      dict.values[python_key(name).value_or(to_string(name))] = value;
    }
    return {std::move(dict)};
  }

  // `and` and `or` evaluate their right side where the left one leaves it open.
  PythonValue binary(const Expression& e, Names& names) {
    PythonValue left = evaluate(e.parts[0], names);
    if (e.word == "and" || e.word == "or") {
      const auto truth = left.truth();
      if (!truth) return {PythonUnknown{e.source}};
      return *truth == (e.word == "or") ? left : evaluate(e.parts[1], names);
    }
    PythonValue made = python_binary(e.word, left, evaluate(e.parts[1], names));
    if (made.unknown() != nullptr) made = {PythonUnknown{e.source}};
    return made;
  }

  // What a call is given, each evaluated once: it may change what it is given itself.
  struct Given {
    std::vector<PythonValue> places;
    Names keywords;
    PythonValue whose;  // of a method: its object
  };
  Given given_to(const Expression& e, Names& names) {
    Given given;
    const Expression& callee = e.parts.front();
    if (callee.kind == Expression::Kind::attribute)
      given.whose = evaluate(callee.parts.front(), names);
    for (std::size_t p = 1; p < e.parts.size(); ++p) {
      const std::string& keyword = e.words[p - 1];
      PythonValue value = evaluate(e.parts[p], names);
      if (keyword == "**" && value.dict() != nullptr) {
        for (const auto& [name, held] : value.dict()->values) given.keywords[name] = held;
      } else if (keyword.empty() || keyword[0] == '*') {
        given.places.push_back(std::move(value));
      } else {
        given.keywords[keyword] = std::move(value);
      }
    }
    return given;
  }

  PythonValue call(const Expression& e, Names& names) { return call(e, given_to(e, names)); }

  PythonValue call(const Expression& e, Given given) {
    const Expression& callee = e.parts.front();
    if (callee.kind == Expression::Kind::attribute && callee.word == "lower" &&
        e.parts.size() == 1) {
      if (const auto small = python_lower(given.whose)) return *small;
    }
    if (callee.kind == Expression::Kind::name) {
      if (const auto known = function(callee.word))
        return known->file->call_own(*known->is, given.places, given.keywords);
    }
    if (auto known = python_builtin({callee.source, given.places, given.keywords}, heap_, budget_))
      return *std::move(known);
    return object({callee.source, std::move(given.places), std::move(given.keywords),
                   python_made_from(given.whose)});
  }

  // A function, and what follows its file: of this one, or imported there in turn.
  struct Function {
    PythonEvaluator* file = nullptr;
    const Statement* is = nullptr;
  };
  std::optional<Function> function(const std::string& name) {
    if (const auto own = functions_.find(name); own != functions_.end())
      return Function{this, own->second};
    return elsewhere(name, &PythonEvaluator::function);
  }

  // What `look` finds of a name in the file that it was imported from.
  template <class Found>
  std::optional<Found> elsewhere(
      const std::string& name, std::optional<Found> (PythonEvaluator::*look)(const std::string&)) {
    const auto import = imports_.find(name);
    if (!run_.files || import == imports_.end() || import->second.module_name.empty() ||
        run_.importing >= kDeepestCall)
      return std::nullopt;
    ++run_.importing;
    PythonEvaluator* other = imported(import->second.module_name);
    auto found = other == nullptr ? std::nullopt : (other->*look)(import->second.there);
    --run_.importing;
    return found;
  }
  // The first of its places that is there is it, whether or not it has the names asked for. One
  // that is being read imports, in a circle, and may be asked again.
  PythonEvaluator* imported(const std::string& module_name) {
    const auto known = found_.find(module_name);
    if (known != found_.end()) return known->second;
    bool circle = false;
    for (const std::string& path : python_places_of(module_name, folder_)) {
      step();
      circle = circle || run_.reading.contains(path);
      PythonEvaluator* other = module(path);
      if (other != nullptr && other != this) return found_[module_name] = other;
    }
    if (!circle) found_[module_name] = nullptr;
    return nullptr;
  }
  PythonEvaluator* module(const std::string& path) {
    const auto known = run_.modules.find(path);
    if (known != run_.modules.end())
      return known->second == nullptr ? nullptr : known->second->evaluator.get();
    auto& made = run_.modules[path];  // while it is read it imports nothing of itself
    const auto text = run_.files(path);
    if (!text) return nullptr;
    budget_.bytes(text->size());
    auto read = std::make_unique<PythonRun::Module>();
    try {
      read->file = read_python(*text, path);
    } catch (const InputError&) {
      return nullptr;  // no Python that is understood: as if it were not there
    }
    run_.reading.insert(path);
    read->evaluator = std::make_unique<PythonEvaluator>(read->file, run_,
                                                        path.substr(0, path.find_last_of('/') + 1));
    run_.reading.erase(path);
    made = std::move(read);
    return made->evaluator.get();
  }

  const PythonFile& file_;
  PythonRun& run_;
  std::string folder_;  // of this file, from that of the first one: "", "../", "a/b/"
  std::map<std::string, PythonImport> imports_;
  std::map<std::string, const Statement*> functions_;
  std::map<std::string, PythonEvaluator*> found_ = {};  // by the module's name; null: not there
  Names globals_;
  std::size_t forgotten_ = 0;
  PythonHeap& heap_;
  Budget& budget_;
  std::vector<std::string>& not_followed_;
  int &depth_, &steps_;
};

}  // namespace

PythonResult call_python(const PythonFile& file, const std::string& function,
                         const PythonFiles& files) {
  PythonRun run{files, Budget(file.name)};
  return PythonEvaluator(file, run).call(function);
}

}  // namespace weir
