# The Rack origin of the framework matrix: says how Rack reads the request, on WEBrick or Puma, or behind the router of Rails.
require 'json'
require 'rack'

LIMITED = '/auth/sendOTP'

def flat(value)
  case value
  when Hash then value.values.flat_map { |one| flat(one) }
  when Array then value.flat_map { |one| flat(one) }
  else [text(value)]
  end
end

def text(value)
  value.to_s.dup.force_encoding('UTF-8').scrub
end

def values(of)
  of.to_h { |name, value| [text(name), flat(value)] }
rescue StandardError
  {}
end

def attempt
  yield
rescue StandardError
  {}
end

APP = lambda do |env|
  request = Rack::Request.new(env)
  path = request.path_info
  # Rack::Builder's `map` and Rack::URLMap take slashes of the beginning together; Rails unescapes.
  read = { 'path_info' => path, 'unescaped' => Rack::Utils.unescape_path(path), 'merged' => path.squeeze('/') }
  # A route in an expression that ignores case, or the route that Rails dispatched to.
  limited = env.fetch('limited') { read.values.any? { |one| text(one).match?(%r{\A#{LIMITED}/*\z}i) } }
  headers = env.select { |name, _| name.start_with?('HTTP_') }
  headers = headers.to_h { |name, value| [name.delete_prefix('HTTP_').downcase.tr('_', '-'), value] }
  body = JSON.generate(
    limited: limited,
    read: read.transform_values { |one| text(one) },
    method: request.request_method,
    form: values(attempt { request.POST }),
    # What Rails and Sinatra merge.
    query: values(attempt { request.params }),
    cookie: values(attempt { request.cookies }),
    credentials: attempt { env.fetch('credentials', -> {}).call }.to_a.map { |one| text(one) },
    header: values(headers)
  )
  names = { 'content-type' => 'application/json', 'x-dispatched' => limited ? 'limited' : 'other' }
  names['content-length'] = body.bytesize.to_s
  [200, names, [request.head? ? '' : body]]
end

# The router of Rails, with its default: a route has an optional format.
def routed
  require 'action_controller'
  require 'action_dispatch'
  credentials = lambda do |env|
    request = ActionDispatch::Request.new(env)
    basic = ActionController::HttpAuthentication::Basic
    next [basic.user_name_and_password(request).join(':')] if basic.has_basic_credentials?(request)

    [ActionController::HttpAuthentication::Token.token_and_options(request)&.first].compact
  end
  routes = ActionDispatch::Routing::RouteSet.new
  users = Class.new(ActionController::API) do
    include ActionController::ParamsWrapper
    # As `rails new` writes it.
    wrap_parameters :user, format: [:json]
    def create
      response.headers['x-dispatched'] = 'other'
      render json: { form: { phone: [params.dig(:user, :phone)].compact } }
    end
  end
  routes.draw do
    post '/users', to: users.action(:create)
    match LIMITED, via: :all, to: ->(env) { APP.call(env.merge('limited' => true, 'credentials' => -> { credentials.call(env) })) }
    match '*path', via: :all, to: ->(env) { APP.call(env.merge('limited' => false, 'credentials' => -> { credentials.call(env) })) }
    root to: ->(env) { APP.call(env.merge('limited' => false)) }, via: :all
  end
  routes
end

host, port = ARGV[0].split(':')
case ARGV[1]
when 'puma'
  require 'puma'
  require 'puma/server'
  server = Puma::Server.new(APP)
  server.add_tcp_listener(host, port.to_i)
  server.run.join
else
  require 'webrick'
  begin
    require 'rackup/handler/webrick'
    handler = Rackup::Handler::WEBrick
  rescue LoadError
    require 'rack/handler/webrick'
    handler = Rack::Handler::WEBrick
  end
  app = ARGV[1] == 'rails' ? routed : APP
  handler.run(app, Host: host, Port: port.to_i, AccessLog: [], Logger: WEBrick::Log.new($stderr, WEBrick::Log::WARN))
end
