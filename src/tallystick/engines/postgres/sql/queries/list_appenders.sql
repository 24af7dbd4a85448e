SELECT pid, application, state, seconds, login, is_appender FROM tally.appenders()
