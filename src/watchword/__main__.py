from watchword.app.cli import main

main()
