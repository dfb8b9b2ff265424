// Requests are let in by four locks: they come over the loopback, name it as their host (a page of
// another site that had its name point here would name that site), come from no other site's page,
// and know the token that the link has.
// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/http.hpp"

#include <fmt/format.h>
#include <httplib.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "plan/words/error.hpp"
#include "tools/serve/answers.hpp"
#include "tools/serve/runs.hpp"
#include "tools/serve/served_page.hpp"

namespace weir {
namespace {

using httplib::Request;
using httplib::Response;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostBytes = std::size_t{16} << 20;  // of a body
constexpr std::chrono::seconds kMostTime(20);              // until it is there
constexpr int kThreads = 16;
constexpr int kStreams = 8;  // of them, at most so many that tell events
constexpr const char* kLoopback = "127.0.0.1";

std::string new_token() {
  constexpr const char* kDigits = "0123456789abcdef";
  std::random_device random("/dev/urandom");
  std::string token;
  for (int i = 0; i < 32; ++i) token += kDigits[random() % 16];
  return token;
}

// In a time that does not tell how much of it is right.
bool same(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return false;
  unsigned differ = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    differ |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return differ == 0;
}

void put(Response& response, const Answer& answer) {
  response.status = answer.status;
  response.set_content(answer.body, answer.type);
}

void refuse(Response& response, int status, const std::string& why) {
  const Json json{{"schema", "weir.error/1"}, {"message", why}, {"exit_code", 2}};
  put(response, {status, "application/json", json.dump()});
}

// Who may ask.
class Door {
 public:
  Door(int port, std::string token) : token_(std::move(token)) {
    for (const char* name : {kLoopback, "localhost"}) {
      hosts_.push_back(std::string(name) + ":" + std::to_string(port));
      origins_.push_back("http://" + hosts_.back());
    }
  }

  // None: it is let in.
  [[nodiscard]] std::optional<std::string> refusal(const Request& request) const {
    if (request.get_header_value_count("Host") != 1 ||
        !is_one_of(request.get_header_value("Host"), hosts_))
      return "Host: expected this server's address";
    // A browser says it of every request that a page makes but of a plain visit.
    if (request.has_header("Origin") && !is_one_of(request.get_header_value("Origin"), origins_))
      return "Origin: expected this server's page";
    const bool page = request.method == "GET" && request.path == "/";
    const std::string token =
        page ? request.get_param_value("token") : request.get_header_value("X-Weir-Token");
    if (!same(token, token_))
      return "the token is missing or wrong: open the link that was printed";
    // No form of another site can send this kind.
    if (request.method == "POST" &&
        !request.get_header_value("Content-Type").starts_with("application/json"))
      return "Content-Type: expected application/json";
    return std::nullopt;
  }

 private:
  static bool is_one_of(const std::string& text, const std::vector<std::string>& known) {
    return std::find(known.begin(), known.end(), text) != known.end();
  }

  std::string token_;
  std::vector<std::string> hosts_, origins_;
};

// The threads that answer. The library's own pool, where it gets only some of them, waits for ever
// for those to end.
class Workers : public httplib::TaskQueue {
 public:
  // Throws std::system_error where there is no room for all.
  explicit Workers(int count) {
    try {
      while (count-- > 0) threads_.emplace_back([this] { work(); });
    } catch (...) {
      shutdown();
      throw;
    }
  }
  ~Workers() override { shutdown(); }

  // Later versions of the library ask whether there was room.
  using Taken = decltype(std::declval<httplib::TaskQueue&>().enqueue({}));
  Taken enqueue(std::function<void()> task) override {
    const std::scoped_lock lock(mutex_);
    tasks_.push_back(std::move(task));
    come_.notify_one();
    return static_cast<Taken>(true);
  }
  // What was taken in is done before they end.
  void shutdown() override {
    {
      const std::scoped_lock lock(mutex_);
      over_ = true;
      come_.notify_all();
    }
    for (std::thread& thread : std::exchange(threads_, {})) thread.join();
  }

 private:
  void work() {
    for (;;) {
      std::function<void()> task;
      {
        std::unique_lock lock(mutex_);
        come_.wait(lock, [this] { return over_ || !tasks_.empty(); });
        if (tasks_.empty()) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      task();
    }
  }

  std::mutex mutex_;  // over the three below
  std::condition_variable come_;
  std::deque<std::function<void()>> tasks_;
  bool over_ = false;
  std::vector<std::thread> threads_;
};

// Events from the thread that works to the one that sends.
class Events {
 public:
  void send(std::string event) {
    const std::scoped_lock lock(mutex_);
    // A reader that does not read holds no memory: it misses what it did not take.
    constexpr std::size_t kMost = 64;
    if (waiting_.size() >= kMost) waiting_.pop_front();
    waiting_.push_back(std::move(event));
    come_.notify_one();
  }
  void close() {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    come_.notify_one();
  }
  void leave() {
    const std::scoped_lock lock(mutex_);
    left_ = true;
  }
  [[nodiscard]] bool left() const {
    const std::scoped_lock lock(mutex_);
    return left_;
  }
  // The next, a comment where none comes within a while; none after the last.
  [[nodiscard]] std::optional<std::string> next() {
    std::unique_lock lock(mutex_);
    come_.wait_for(lock, std::chrono::milliseconds(500),
                   [this] { return closed_ || !waiting_.empty(); });
    if (!waiting_.empty()) {
      std::string event = std::move(waiting_.front());
      waiting_.pop_front();
      return event;
    }
    if (closed_) return std::nullopt;
    return ": waiting\n\n";  // a comment, by which one learns that the reader is there
  }

 private:
  mutable std::mutex mutex_;  // over all of it
  std::condition_variable come_;
  std::deque<std::string> waiting_;
  bool closed_ = false, left_ = false;
};

// The work on a thread of its own, its events as the response.
class Streams {
 public:
  void tell(Response& response, std::function<void(Events&)> work) {
    if (open_.fetch_add(1) >= kStreams) {
      --open_;
      return refuse(response, 503, "too many pages are open: close one");
    }
    // Shared by the sender and the worker, whichever ends first.
    const auto events = std::make_shared<Events>();
    const auto worker = std::make_shared<std::thread>([events, work = std::move(work)] {
      work(*events);
      events->close();
    });
    response.set_chunked_content_provider(
        "text/event-stream",
        [events](std::size_t, httplib::DataSink& sink) {
          const auto event = events->next();
          if (!event) {
            sink.done();
            return true;
          }
          return sink.write(event->data(), event->size());
        },
        [this, events, worker](bool) {
          events->leave();
          worker->join();
          --open_;
        });
  }

 private:
  std::atomic<int> open_{0};
};

// The body, where it is there in time and not too large; else it is refused.
std::optional<std::string> body_of(const httplib::ContentReader& reader, Response& response) {
  const Clock::time_point until = Clock::now() + kMostTime;
  std::string body;
  bool too_large = false;
  const bool whole = reader([&](const char* data, std::size_t length) {
    too_large = body.size() + length > kMostBytes;
    if (too_large || Clock::now() > until) return false;
    body.append(data, length);
    return true;
  });
  if (whole) return body;
  // The library says so where the size was announced.
  const bool large = too_large || response.status == 413;
  refuse(response, large ? 413 : 408,
         large ? "the body is larger than 16 MiB" : "the body took longer than 20 s, or broke off");
  return std::nullopt;
}

// The runs, each time that a row of them has changed.
void watch_runs(Workplace& workplace, Events& events) {
  std::string before;
  while (!workplace.ended && !events.left()) {
    std::string now;
    try {
      now = event_text("runs", runs_json(workplace));
    } catch (...) {
      now = "event: error\ndata: " + answer_of_error().body + "\n\n";
    }
    if (now != before) events.send(before = now);
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

void set_limits(httplib::Server& server) {
  server.set_payload_max_length(kMostBytes);
  server.set_read_timeout(std::chrono::seconds(5));
  server.set_write_timeout(std::chrono::seconds(5));
  // One request a connection: what is left of one that was refused is not read as another.
  server.set_keep_alive_max_count(1);
}

void set_headers(Response& response) {
  // The page is whole: it loads nothing, sends to nobody else, and is in nobody's frame.
  response.set_header("Content-Security-Policy",
                      "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
                      "img-src data: blob:; connect-src 'self'; frame-src 'self'; "
                      "frame-ancestors 'none'; base-uri 'none'; form-action 'none'");
  response.set_header("X-Content-Type-Options", "nosniff");
  response.set_header("Referrer-Policy", "no-referrer");
  response.set_header("Cache-Control", "no-store");
}

void set_paths(httplib::Server& server, Workplace& workplace, Streams& streams) {
  server.Get("/", [](const Request&, Response& response) {
    put(response, {.type = "text/html; charset=utf-8", .body = served_page()});
  });
  server.Get("/api/runs", [&](const Request&, Response& response) {
    streams.tell(response, [&](Events& events) { watch_runs(workplace, events); });
  });
  server.Post("/api/sweep",
              [&](const Request&, Response& response, const httplib::ContentReader& reader) {
                const auto body = body_of(reader, response);
                if (!body) return;
                streams.tell(response, [&workplace, text = *body](Events& events) {
                  search(workplace, text,
                         {[&events](std::string event) { events.send(std::move(event)); },
                          [&events] { return !events.left(); }});
                });
              });
  server.Post(R"(/api/([a-z]{1,20}))", [&](const Request& request, Response& response,
                                           const httplib::ContentReader& reader) {
    if (const auto body = body_of(reader, response))
      put(response, answer(workplace, request.matches[1].str(), *body));
  });
}

}  // namespace

int serve_http(Workplace& workplace, const ServeRequest& request) {
  httplib::Server server;
  set_limits(server);
  // Before the link is told. The server takes its queue as a plain pointer, and deletes it.
  auto workers = std::make_unique<Workers>(kThreads);
  server.new_task_queue = [&workers] { return workers.release(); };
  const int port = request.port != 0
                       ? (server.bind_to_port(kLoopback, request.port) ? request.port : -1)
                       : server.bind_to_any_port(kLoopback);
  if (port < 0) {
    throw RunFailed("127.0.0.1:" + std::to_string(request.port) +
                    ": cannot listen there: another program may");
  }
  const std::string token = new_token();
  const Door door(port, token);
  server.set_pre_routing_handler([&door](const Request& asked, Response& response) {
    set_headers(response);
    const auto why = door.refusal(asked);
    if (!why) return httplib::Server::HandlerResponse::Unhandled;
    refuse(response, 403, *why);
    return httplib::Server::HandlerResponse::Handled;
  });
  server.set_exception_handler([](const Request&, Response& response, const std::exception_ptr&) {
    refuse(response, 500, "a fault of the server");
  });
  server.set_error_handler([](const Request&, Response& response) {
    if (response.body.empty()) refuse(response, response.status, "nothing is there");
  });
  Streams streams;
  set_paths(server, workplace, streams);
  if (request.stopping) static_cast<void>(request.stopping());  // from here on it listens
  const std::string link = fmt::format("http://{}:{}/?token={}", kLoopback, port, token);
  int signal = 0;
  std::exception_ptr untold;
  std::thread watch([&] {
    while (!server.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    try {
      if (request.ready) request.ready(link);
    } catch (...) {
      untold = std::current_exception();
    }
    while (signal == 0 && !untold && server.is_running()) {
      signal = request.stopping ? request.stopping() : 0;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    // A search that runs gives up and pages are told, so that the wait for what is being answered
    // is short.
    workplace.ended = true;
    server.stop();
  });
  server.listen_after_bind();
  watch.join();
  if (untold) std::rethrow_exception(untold);
  if (signal == 0) throw RunFailed("the server ended");
  return signal;
}

}  // namespace weir
